"""Merge, revert and cherry-pick: three-way merges into the head of a branch."""
