"""Attacks on a lake and its server, as strangers would make them, against real processes."""
