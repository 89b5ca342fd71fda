"""The tree: sorted records in immutable files, two levels deep, canonical.

Pure: it knows neither repositories nor where files are kept (port: :class:`graveler.tree.files.TreeFiles`), and starts neither
processes nor threads (port: :class:`graveler.tree.runtime.Runtime`). From the bottom up: ``record`` (what one object is, in
bytes), ``split`` (where a range ends), ``block`` and ``sstable`` (files of sorted records), ``kept`` (what lookups keep of them),
``assemble`` (files of blocks, most of them copied), ``naming`` and ``ids`` (what a range is called, and what is noted of it),
``files`` (opening them), ``tree`` (one state: reading), ``patch`` (a range with few changes), ``writer`` (the resynchronising
writer). On these: ``apply``, ``merge``, ``diff`` and what they walk with (``cursor``, ``stretches``, and ``reads`` and
``expected`` for the ranges that come next); ``parts`` (work cut at keys); ``listing``, ``summary``, ``touch`` (which paths
changed); ``parallel`` (a tree built in parts). The format is told in ``docs/format.md``.
"""
