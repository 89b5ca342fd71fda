"""The local server: events, presigned URLs, real processes."""
