"""Staging objects whose bytes already exist, and deletes."""

from graveler.lake.context import Context
from graveler.lake.objects.create import stage_if_absent
from graveler.lake.parts import RepositoryParts
from graveler.model import ObjectEntry
from graveler.requests.staging import Delete, Link, LinkMany
from graveler.tree.record import encode_key


def link(repository: RepositoryParts, request: Link, context: Context) -> None:
    """See :class:`graveler.requests.staging.Link`. ``accept`` cannot be combined with ``if_absent``."""
    deadline = repository.deadlines.begin()
    key, packed = checked_record(repository, request.branch, request.entry, repository.clock.now())
    if not request.if_absent:
        repository.stager.stage(request.branch, [(key, packed)], deadline, force=request.force, accept=context.accept)
        return
    assert context.accept is None
    stage_if_absent(repository, request.branch, request.entry.path, key, packed, deadline, force=request.force)


def link_many(repository: RepositoryParts, request: LinkMany, context: Context) -> None:
    """See :class:`graveler.requests.staging.LinkMany`."""
    now, deadline = repository.clock.now(), repository.deadlines.begin()
    records = [checked_record(repository, request.branch, entry, now) for entry in request.entries]
    repository.stager.stage(request.branch, records, deadline, force=request.force, accept=context.accept)


def delete(repository: RepositoryParts, request: Delete, _: Context) -> None:
    """See :class:`graveler.requests.staging.Delete`."""
    deleted = [(encode_key(path), None) for path in dict.fromkeys(request.objects)]
    repository.stager.stage(request.branch, deleted, repository.deadlines.begin(), force=request.force)


def checked_record(repository: RepositoryParts, branch: str, entry: ObjectEntry, now: float) -> tuple[bytes, bytes]:
    """Return key and record of an object to link, if its address is allowed. :class:`InvalidError`."""
    key = encode_key(entry.path)
    prefix = repository.namespace + "/"
    if entry.address.startswith(prefix):
        repository.names.check(entry.address.removeprefix(prefix), branch, entry.path, now)
    return key, repository.pack(entry)
