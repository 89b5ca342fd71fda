"""Dump and restore: a copy of the mutable state of one repository beside the immutable one, and back.

``chunks`` (its layout in the object store), ``dump`` (taking one, and why the order misses nothing), ``restore``, and ``history``
(the commit items, rebuilt from the records in the object store; needs no dump).
"""
