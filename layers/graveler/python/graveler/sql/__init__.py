"""SQL over a lake's history: ``objects('sales/main')``, ``diff('sales', 'main~1', 'main')``, … in any query of DuckDB.

DuckDB's Python has no table functions. So :mod:`~graveler.sql.calls` finds the calls in a query's text and puts the names of
views in their places, :mod:`~graveler.sql.pushdown` finds which paths each needs, and :mod:`~graveler.sql.session` runs the
query. Needs ``pip install 'graveler[sql]'``.
"""
