"""The tree: sorted records in immutable files, two levels deep, canonical.

Pure: it knows neither repositories nor where files are kept (port: :class:`graveler.tree.files.TreeFiles`). From the bottom up:
``record`` (what one object is, in bytes), ``split`` (where a range ends), ``sstable`` (files of sorted records), ``files``
(opening them), ``ids`` (record IDs kept near), ``tree`` (one state: reading), ``writer`` (the resynchronising writer). On these:
``apply``, ``merge``, ``diff`` and what they walk with (``cursor``, ``stretches``); ``listing``, ``summary``, ``touch`` (which
paths changed); ``crew`` (worker processes for all of these) and ``parallel`` (a tree built in parts). The format is told in
``docs/format.md``.
"""
