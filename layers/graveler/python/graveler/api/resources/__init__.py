"""The routes, a module for each resource group."""

from typing import Final

from graveler.api.resources import branches, repositories
from graveler.api.routing import Routes

GROUPS: Final[list[Routes]] = [
    repositories.routes,
    branches.routes,
]
