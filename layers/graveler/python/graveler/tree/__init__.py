"""The tree: sorted records in immutable files, two levels deep, canonical.

The package is pure: it knows neither repositories nor where files are stored (port: :class:`graveler.tree.store.TreeFiles`),
and starts neither processes nor threads (port: :class:`graveler.tree.runtime.Runtime`).

From the bottom up: ``record`` (the bytes of one object), ``split`` (where a range ends), ``block`` and ``sstable`` (files of
sorted records), ``lookup_cache`` (what lookups keep of them), ``assembler`` (files of blocks, most of them copied),
``range_name`` and ``range_notes`` (a range's name, and the notes on it), ``store`` (opening them), ``tree`` (reading one
state), ``patch`` (a range with few changes), ``writer`` (the resynchronising writer).

On these: ``apply``, ``merge``, ``diff`` and what they walk with (``cursor``, ``stretches``, and ``read_ahead`` and
``expected_ranges`` for the ranges that come next); ``parts`` (work cut at keys); ``listing``, ``summary``, ``has_difference``
(whether paths changed); ``parallel_build`` (a tree built in parts). ``docs/format.md`` specifies the format.
"""
