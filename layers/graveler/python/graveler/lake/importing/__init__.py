"""Import: zero-copy imports of objects that exist elsewhere, each as one commit.

``importer`` replaces what is under a destination by what a listing names; ``folder_listing`` lists a folder,
``object_listing`` reads a listing (CSV, Parquet, S3 Inventory) with the help of ``listing_files`` (which files),
``listing_tables`` (their columns), ``listing_rows`` (columns to records) and ``external_sort`` (any order to the order of
the keys, in bounded memory).
"""
