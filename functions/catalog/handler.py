"""The function ``catalog``: Iceberg's REST protocol, all that is below ``/iceberg``."""

from graveler.functions.entry import api_handler

handler = api_handler("catalog")
