"""The means for the work of trees: worker processes (``crew``), threads that write and read files, scratch files.

:class:`~graveler.runtime.local.LocalRuntime` is what the rooms above pass to a :class:`~graveler.tree.store.TreeStore`; the port
is :mod:`graveler.tree.runtime`.
"""
