"""Commits: sealing what is staged, building a tree, landing it on a branch, publishing."""
