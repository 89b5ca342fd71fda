"""Benchmarks: ``python -m bench`` (see ``python -m bench --help``), or ``make bench``."""
