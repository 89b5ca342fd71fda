"""Ports and adapters for graveler's storage: objects (immutable files, users' bytes) and tables (mutable, conditional).

``objects`` and ``tables`` are the ports, in plain types; every other module here is an adapter of one of them, or the cache in
front of one. An adapter's library (sqlite3, boto3, …) is imported by that adapter alone (law L2).
"""
