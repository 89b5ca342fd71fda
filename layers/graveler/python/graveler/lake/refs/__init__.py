"""Branches and tags: creating, moving, renaming and removing them."""
