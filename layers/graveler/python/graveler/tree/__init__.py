"""The tree: sorted records in immutable files, two levels deep, canonical.

Pure: it knows neither repositories nor where files are kept (port: :class:`graveler.tree.files.TreeFiles`). From the bottom up:
``record`` (what one object is, in bytes), ``split`` (where a range ends), ``sstable`` (files of sorted records), ``files``
(opening them), ``tree`` (one state: reading), ``writer`` (the resynchronising writer), and on these ``apply``, ``diff``,
``merge``, ``listing``, ``parallel``. The format is told in ``docs/format.md``.
"""
