"""Bytes of an object store, streamed in the event loop and never as a whole in memory."""
