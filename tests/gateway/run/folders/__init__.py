"""Folders of ``graveler run``."""
