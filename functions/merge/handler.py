"""The function ``merge``; infra/routes.py tells which operations it answers."""

from graveler.functions.entry import api_handler

handler = api_handler("merge")
