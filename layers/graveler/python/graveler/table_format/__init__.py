"""Table formats: the metadata documents and manifests of Iceberg tables, their updates, and the merge of two
states of a table.

Documents and bytes in, documents and bytes out (law L1): the room reads no file, knows no repository and no protocol. A caller
gives it what it reads. The source of every rule is the `table spec <https://iceberg.apache.org/spec/>`_, versions 1 to 3.
"""
