"""The routes, one module per resource group.

Of two that declare the same method and path the first counts, so ``unimplemented`` is the last.
"""

from typing import Final

from graveler.api.resources import (
    access_keys,
    auth,
    branches,
    commit_statuses,
    commits,
    config,
    dumps,
    external_principals,
    garbage_collection,
    imports,
    ingest,
    insight,
    leftovers,
    multipart,
    objects,
    operations,
    principals,
    pulls,
    recorded_uploads,
    ref_rules,
    refs,
    repositories,
    setup,
    staging,
    tags,
    unimplemented,
    upkeep,
)
from graveler.api.routing import Routes

GROUPS: Final[tuple[Routes, ...]] = (
    repositories.routes,
    branches.routes,
    tags.routes,
    commits.routes,
    commit_statuses.routes,
    refs.routes,
    pulls.routes,
    objects.routes,
    staging.routes,
    multipart.routes,
    recorded_uploads.routes,
    imports.routes,
    ref_rules.routes,
    insight.routes,
    dumps.routes,
    garbage_collection.routes,
    leftovers.routes,
    upkeep.routes,
    ingest.routes,
    operations.routes,
    auth.routes,
    access_keys.routes,
    principals.routes,
    external_principals.routes,
    config.routes,
    setup.routes,
    unimplemented.routes,
)
