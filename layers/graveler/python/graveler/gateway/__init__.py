"""The S3 gateway: branches, tags and commits as buckets of S3, for clients that know nothing of graveler; and ``graveler run``,
which makes any program a transaction.

The gateway runs where its client runs, listens on this machine only, and keeps nothing outside the table and the object store
(``docs/design/0022-s3-gateway.md``).
"""
