"""graveler in Lambda: what stands between an event and the rooms that answer it.

``functions/<verb>/handler.py`` of the repository is the entry point of each function, a line long; which function answers which
operation stands in ``infra/routes.py``. All are this room, with other rights. What a deployment decides comes as environment
variables, which only :mod:`graveler.functions.configuration` reads.
"""
