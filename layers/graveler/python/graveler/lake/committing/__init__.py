"""Commits: sealing staged changes, building a tree, landing it on a branch, publishing."""
