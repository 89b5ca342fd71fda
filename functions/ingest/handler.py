"""The function ``ingest``: what lands in buckets, from its queue, and the commits that the clock makes due."""

from graveler.functions.ingest_entry import ingest_handler

handler = ingest_handler()
