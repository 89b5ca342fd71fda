"""Branches and tags: made, moved, renamed, removed."""
