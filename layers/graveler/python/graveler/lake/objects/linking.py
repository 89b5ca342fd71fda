"""Staging objects whose bytes already exist, and deletes."""

from graveler.lake.context import Context
from graveler.lake.objects.conditional import change_on, stage_change
from graveler.lake.parts import RepositoryParts
from graveler.model import ObjectEntry
from graveler.requests.staging import Condition, Delete, Link, LinkMany
from graveler.tree.record import encode_key


def link(repository: RepositoryParts, request: Link, context: Context) -> None:
    """See :class:`graveler.requests.staging.Link`. ``accept`` cannot be combined with a condition."""
    deadline = repository.deadlines.begin()
    branch, path, force = request.branch, request.entry.path, request.force
    key, packed = checked_record(repository, branch, request.entry, repository.clock.now())
    condition = request.condition
    if not condition:
        repository.stager.stage(branch, [(key, packed)], deadline, force=force, accept=context.accept)
        return
    assert context.accept is None
    change = change_on(condition, repository, branch, path, key, packed)
    stage_change(repository, branch, path, key, change, deadline, force=force)


def link_many(repository: RepositoryParts, request: LinkMany, context: Context) -> None:
    """See :class:`graveler.requests.staging.LinkMany`."""
    now, deadline = repository.clock.now(), repository.deadlines.begin()
    records = [checked_record(repository, request.branch, entry, now) for entry in request.entries]
    repository.stager.stage(request.branch, records, deadline, force=request.force, accept=context.accept)


def delete(repository: RepositoryParts, request: Delete, _: Context) -> None:
    """See :class:`graveler.requests.staging.Delete`."""
    branch, deadline = request.branch, repository.deadlines.begin()
    if not request.if_match:
        deleted = [(encode_key(path), None) for path in dict.fromkeys(request.objects)]
        repository.stager.stage(branch, deleted, deadline, force=request.force)
        return
    path = request.conditional_path
    key = encode_key(path)
    change = change_on(Condition(if_match=request.if_match), repository, branch, path, key, None)
    stage_change(repository, branch, path, key, change, deadline, force=request.force)


def checked_record(repository: RepositoryParts, branch: str, entry: ObjectEntry, now: float) -> tuple[bytes, bytes]:
    """Return key and record of an object to link, if its address is allowed. :class:`InvalidError`."""
    key = encode_key(entry.path)
    prefix = repository.namespace + "/"
    if entry.address.startswith(prefix):
        repository.names.check(entry.address.removeprefix(prefix), branch, entry.path, now)
    return key, repository.pack(entry)
