"""Retention: the rules for which commits keep their objects, and the collector that removes what is no longer needed.

Reachable data and metadata are never removed; unreachable ones are gone after a while. ``docs/retention.md`` explains how that
holds despite concurrent writers, and ``tests/retention/model.py`` checks it exhaustively.

This package knows the operations of ``lake``, and which background operations are running; it must not know HTTP. The decisions
(:mod:`.rules`, :mod:`.comparison`) are pure, for other engines to share.
"""
