"""A repository as Arrow tables: its objects, differences, history and refs, as streams of record batches.

:mod:`~graveler.sql.arrow.schemas` has the columns of each table, :mod:`~graveler.sql.arrow.tables` the functions that read
them. Both import pyarrow, so only their users load it (``pip install 'graveler[arrow]'``).
"""
