"""Differences between the rows of a table at two commits: ``graveler diff --rows`` and ``ref.diff_rows``.

:mod:`~graveler.sql.rowdiff.tables` finds a table's files, and those that differ; :mod:`~graveler.sql.rowdiff.comparison` lets
DuckDB compare their rows. Needs ``pip install 'graveler[sql]'``.
"""
