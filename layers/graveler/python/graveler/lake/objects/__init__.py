"""The uncommitted objects of a branch: staging, copying, moving, deleting and resetting them; and their bytes."""
