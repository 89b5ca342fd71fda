"""Retention: which commits keep their objects, and the collector that removes what nobody needs any more.

Nothing that somebody can reach is ever removed; what nobody can reach is gone after a while, data and metadata. How that is
kept up while others write stands in ``docs/retention.md``, and is searched exhaustively by ``tests/retention/model.py``.

It knows the use cases of ``lake``, and which operations are running; it must not know HTTP. What decides (:mod:`.keeping`,
:mod:`.comparing`) is pure, for other engines to share.
"""
