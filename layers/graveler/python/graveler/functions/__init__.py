"""graveler in Lambda: the code between an event and the rooms that respond to it.

``functions/<verb>/handler.py`` of the repository is the entry point of each function, a line long; ``infra/routes.py`` assigns
the API's operations to functions. All are this room, with different rights. A deployment's settings come as environment
variables, which only :mod:`graveler.functions.deployment_settings` reads.
"""
