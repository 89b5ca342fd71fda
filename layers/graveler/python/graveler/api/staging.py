"""Existing objects that clients stage: what they may declare, and where the objects may be."""

import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from graveler.access.refusals import OthersNamespaceError
from graveler.access.sources import ImportSources
from graveler.api.call import Call
from graveler.api.errors import bad_request
from graveler.api.header_values import is_header_value
from graveler.lake.objects.stage import Accept
from graveler.lake.repository import OpenRepository
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry, Settings
from graveler.requests.staging import Condition, Link


def entry_to_stage(
    path: str,
    address: str,
    checksum: str,
    size: int,
    *,
    mtime: int | None,
    content_type: str | None,
    metadata: Mapping[str, str] | None,
) -> ObjectEntry:
    """Return the object to stage; the quotes of an ETag are removed from its checksum. 400 for impossible values."""
    checksum = checksum.strip('"')
    if not checksum:
        raise bad_request(f"object {path!r} needs a checksum: the ETag that the store returned when it was written")
    if not is_header_value(checksum) or '"' in checksum:
        raise bad_request(f"object {path!r} cannot have the checksum {checksum[:200]!r}; give the store's ETag")
    if not is_header_value(content_type or ""):
        raise bad_request(f"object {path!r} cannot have the content type {(content_type or '')[:200]!r}")
    if size < 0:
        raise bad_request(f"object {path!r} cannot have {size} bytes")
    return ObjectEntry(
        path,
        address.partition("?")[0],
        size,
        checksum,
        int(time.time()) if mtime is None else mtime,
        content_type or DEFAULT_CONTENT_TYPE,
        metadata or {},
    )


def require_source(call: Call, repository: OpenRepository, address: str, *, prefix: bool = False) -> None:
    """Check that the caller may read at an address, so that no client reads through the server what it has no access to: outside
    the repository's own namespace only import sources of the deployment that the repository allows, except the namespaces of
    repositories that the key may not read. With ``prefix`` the address is that of all objects that begin with it. 403. No
    request, except for a key limited to repositories, as :meth:`Neighbours.owners`."""
    if not address.startswith(repository.repository.namespace + "/"):
        _sources(call, repository.repository.settings).require(address)
        require_own(call, address, prefix=prefix)


def _sources(call: Call, settings: Settings) -> ImportSources:
    narrowing = settings.import_sources
    return call.settings.import_sources if narrowing is None else call.settings.import_sources.narrowed(narrowing)


def require_own(call: Call, address: str, *, prefix: bool = False) -> None:
    """Refuse, with a 403, an address in the namespace of a repository that the key may not read, or a ``prefix`` of such. Cost as
    :func:`require_source`."""
    if call.identity.repositories:
        owners = call.lake.neighbours.owners(address, prefix=prefix)
        if not all(call.identity.sees(owner.name) for owner in owners):
            raise OthersNamespaceError(address)


def require_object_source(call: Call, repository: OpenRepository, address: str) -> None:
    """Check the address of one object, as :func:`require_source`; 400 for an address where no object can be read."""
    require_source(call, repository, address)
    repository.store_at(address)


def expect_sources(call: Call, repository: OpenRepository, entries: Sequence[ObjectEntry]) -> Accept | None:
    """Check that these may be linked in the repository, as :func:`require_object_source`; otherwise 403. For
    :meth:`Lake.with_recent_repository`: the repository's settings may be a minute old, so where they matter, which is for
    addresses outside its namespace, return a function that checks the current ones when the objects are staged."""
    sources, outside = repository.repository.settings.import_sources, False
    namespace = f"{repository.repository.namespace}/"
    for entry in entries:
        require_object_source(call, repository, entry.address)
        outside = outside or not entry.address.startswith(namespace)

    def accept(settings: Settings) -> None:
        if settings.import_sources != sources:
            for entry in entries:
                if not entry.address.startswith(namespace):
                    _sources(call, settings).require(entry.address)

    return accept if outside else None


def link_one(
    call: Call, repository: str, branch: str, entry: ObjectEntry, condition: Condition, *, force: bool
) -> None:
    """Link an existing object, if permitted, and if the condition holds."""

    def link(recent: OpenRepository) -> None:
        request = Link(
            branch=branch, entry=entry, if_absent=condition.if_absent, if_match=condition.if_match, force=force
        )
        if condition:
            current = call.lake.repository(repository)
            expect_sources(call, current, [entry])
            current.run(request, call.context())
        else:
            recent.run(request, replace(call.context(), accept=expect_sources(call, recent, [entry])))

    call.lake.with_recent_repository(repository, link)


def others_namespaces(call: Call, folders: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of these folders, as folders, that lie in namespaces of repositories that the key may not read. Cost as
    :func:`require_source`."""
    if not call.identity.repositories:
        return ()
    neighbours = call.lake.neighbours
    return tuple(
        part
        for folder in folders
        for owner in neighbours.owners(folder, prefix=True)
        if not call.identity.sees(owner.name)
        for part in (neighbours.common(folder, owner), f"{owner.namespace}/")
    )
