"""The Iceberg REST catalog: branches, tags and commits as catalogs of Iceberg tables, below ``/iceberg``.

The protocol is `Iceberg's own <https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml>`_. A catalog's
prefix is ``repository/branch``, or ``repository/commit ID`` for what cannot change. Loaded with the first request of the
protocol.
"""

import re
from typing import Final

from graveler.api.iceberg import catalog_config, namespace_routes, signing_routes, table_routes, view_routes

_PREFIX: Final = re.compile(r"(/iceberg/v1/[^/%]+)%2[fF]")

GROUPS: Final = (
    catalog_config.routes,
    namespace_routes.routes,
    table_routes.routes,
    signing_routes.routes,
    view_routes.routes,
)


def spelled_path(path: str) -> str:
    """Return a request's path with the slash of the prefix as a slash: some clients encode it, as one segment."""
    return _PREFIX.sub(r"\1/", path, count=1)
