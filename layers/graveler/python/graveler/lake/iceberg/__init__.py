"""Iceberg tables, views and namespaces of a repository: entries of its trees, each change of them a commit of a branch.

The layout is in :mod:`graveler.lake.iceberg.catalog_paths`; the rules of the documents are in :mod:`graveler.table_format`.
"""
