"""Opening a lake: its location, its parts, and its repositories."""
