"""Imports of addresses, of a folder's files and of listings, each as one commit."""

import os

from msgspec.structs import replace

from graveler.errors import InvalidError
from graveler.lake.committing.publish import NotePublishing
from graveler.lake.context import Context
from graveler.lake.gates.gate import GateTerms
from graveler.lake.importing.folder_listing import FolderListing
from graveler.lake.importing.folder_uploads import Copies
from graveler.lake.importing.gate import Gate
from graveler.lake.importing.importer import ImportSource, Listing, Terms, import_sources
from graveler.lake.importing.object_listing import ObjectListing, listing_name
from graveler.lake.importing.prefix_listing import source_at
from graveler.lake.parts import RepositoryParts
from graveler.lake.text import utf8
from graveler.requests.importing import ImportAddresses, Imported, ImportFolder, ImportListing
from graveler.system.progress import no_object_progress


def import_addresses(repository: RepositoryParts, request: ImportAddresses, context: Context) -> Imported:
    """See :class:`graveler.requests.importing.ImportAddresses`."""
    sources = [
        source_at(
            address,
            repository.codec,
            Gate(repository.namespace, repository.locate_external),
            context.progress,
            repository.workers,
            trust_mtime=request.trust_mtime,
            folders=request.folders,
            exclude=request.exclude,
            ignore=request.ignore,
        )
        for address in request.sources
    ]
    return _run(repository, request, sources, context)


def import_folder(repository: RepositoryParts, request: ImportFolder, context: Context) -> Imported:
    """See :class:`graveler.requests.importing.ImportFolder`."""
    prefix = utf8("destination", request.destination)
    if prefix and not prefix.endswith(b"/"):
        raise InvalidError(f"destination {request.destination!r} of a folder must be empty or end with '/'")
    if request.copy and request.trust_mtime:
        raise InvalidError("copy reads every file, and trust_mtime none; leave one of them out")
    listing = FolderListing(
        request.folder,
        request.destination,
        repository.codec,
        no_object_progress if request.copy else context.progress,
        workers=repository.workers,
        trust_mtime=request.trust_mtime or request.copy,
        gate=Gate(repository.namespace, repository.locate_external),
        copied=request.copy,
        exclude=request.exclude,
        ignore=request.ignore,
    )
    ruled = bool(request.exclude) or request.ignore
    shown = os.fsencode(request.folder).decode("utf-8", "backslashreplace")

    def run(records: Listing, note: NotePublishing | None = None) -> Imported:
        left_out = (lambda: listing.left_out) if ruled else None
        sources = [ImportSource(prefix, True, records, name=f"folder '{shown}'", left_out=left_out)]
        imported = _run(repository, request, sources, context, f"Import {shown}", note)
        return replace(
            imported,
            skipped=tuple(listing.skipped),
            special=tuple(sorted(listing.special)),
            left_out=tuple(listing.left_out.paths) if ruled else (),
        )

    if not request.copy:
        return run(listing)
    with Copies(repository, request.branch, listing, context.progress, write=not request.dry_run) as copies:
        return run(copies, copies.note)


def import_listing(repository: RepositoryParts, request: ImportListing, context: Context) -> Imported:
    """See :class:`graveler.requests.importing.ImportListing`."""
    options, progress = request.options, context.progress
    listing = ObjectListing(
        request.listing,
        repository.namespace,
        options,
        progress,
        gate=Gate(repository.namespace, repository.locate_external),
    )
    name = request.label or listing_name(request.listing, options)
    sources = [ImportSource(options.destination.encode(), True, listing, listing.parts, progress, name=name)]
    return _run(repository, request, sources, context, "Import a listing")


def _run(
    repository: RepositoryParts,
    request: ImportAddresses | ImportFolder | ImportListing,
    sources: list[ImportSource],
    context: Context,
    message: str = "",
    note: NotePublishing | None = None,
) -> Imported:
    return import_sources(
        repository,
        request.branch,
        sources,
        replace(request.info, message=request.info.message or message),
        force=request.force,
        gate=GateTerms(request=request, actor=context.actor, direct=True),
        terms=Terms(request.allow_empty, request.dry_run),
        only_while=context.only_while,
        note=note,
    )
