"""Objects of a branch that are not committed yet: staged, copied, moved, deleted, reset; and their bytes."""
