"""Imports into one repository, and exports."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graveler.errors import InvalidError
from graveler.lake.importing.progress import Progress, no_progress
from graveler.lake.text import utf8
from graveler.lake.verbs.commits import CommitVerbs
from graveler.requests.base import CommitInfo

if TYPE_CHECKING:
    from graveler.lake.exporting.export import ExportReport
    from graveler.lake.importing.importer import ImportSource
    from graveler.lake.importing.object_listing import ListingOptions
    from graveler.requests.importing import Imported
    from graveler.storage.tables import Check


class ImportVerbs(CommitVerbs):
    """Verbs about what lies elsewhere."""

    def import_folder(
        self,
        branch: str,
        folder: Path,
        destination: str = "",
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        progress: Progress = no_progress,
        created: int | None = None,
        force: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
        trust_mtime: bool = False,
    ) -> "Imported":
        """Take over the files of a folder, where they lie, as one commit. They replace all that is under ``destination``.

        ``destination`` is a prefix, empty or ending with ``/``. Each file is read once, for its MD5. With ``trust_mtime`` none
        is: size and time of modification stand for the bytes, and the record says so (:mod:`graveler.lake.noted_times`).

        Cost: n/r ranges, a metarange and a commit record written; the head's commit, its metarange and seams read; one
        transaction. Two table reads, before the listing, to see that nothing is staged; again for each time that the head moves.
        To say what it adds, replaces and removes: the ranges at the destination read that differ from what comes and overlap it.

        A folder without files is an :class:`EmptySourceError`, unless ``allow_empty``: it would remove all that is under the
        destination. With ``dry_run`` the branch stays as it is, and the result says what the import would change; what was built
        for that is garbage, and costs as much. :class:`DirtyBranchError`, :class:`InvalidError`, :class:`UnavailableError`: then
        nothing was changed, and so it is if the folder cannot be read to its end.
        """
        from graveler.lake.importing.folder_listing import FolderListing
        from graveler.lake.importing.importer import ImportSource

        prefix = utf8("destination", destination)
        if prefix and not prefix.endswith(b"/"):
            raise InvalidError(f"destination {destination!r} of a folder must be empty or end with '/'")
        listing = FolderListing(
            folder, destination, self._codec, progress, workers=self._workers, trust_mtime=trust_mtime
        )
        shown = os.fsencode(folder).decode("utf-8", "backslashreplace")
        return self.import_sources(
            branch,
            [ImportSource(prefix, True, listing, name=f"folder '{shown}'")],
            message or f"Import {shown}",
            committer=committer,
            metadata=metadata,
            request_id=request_id,
            created=created,
            force=force,
            allow_empty=allow_empty,
            dry_run=dry_run,
        )

    def import_listing(
        self,
        branch: str,
        listing: Path | Sequence[Path],
        options: "ListingOptions | None" = None,
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        progress: Progress = no_progress,
        created: int | None = None,
        force: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
        label: str = "",
        only_while: "Check | None" = None,
    ) -> "Imported":
        """Take over the objects that a listing names, where they lie, as one commit. They replace all that is under the
        options' destination. Nothing looks at the objects themselves.

        ``listing`` is a CSV or Parquet file, several, a folder of them, or an S3 Inventory's ``manifest.json``. Several files (or
        row groups of Parquet) in order are shared among worker processes, where the lake has some. Cost: as
        :meth:`import_folder`, and two passes over the listing. ``label`` is what messages call it; ``only_while`` is a condition
        of the transaction that publishes (:class:`graveler.lake.publish.StoppedError`). :class:`InvalidError` names file, row and
        column; also for a file that was cut short.
        """
        from graveler.lake.importing.importer import ImportSource
        from graveler.lake.importing.object_listing import ListingOptions, ObjectListing, listing_name

        options = options or ListingOptions()
        source = ObjectListing(listing, self.repository.namespace, options, progress)
        named = label or listing_name(listing, options)
        return self.import_sources(
            branch,
            [ImportSource(options.destination.encode(), True, source, source.parts, progress, name=named)],
            message or "Import a listing",
            committer=committer,
            metadata=metadata,
            request_id=request_id,
            created=created,
            force=force,
            allow_empty=allow_empty,
            dry_run=dry_run,
            only_while=only_while,
        )

    def export(
        self,
        ref: str,
        folder: Path,
        *,
        prefix: str = "",
        verify: bool = False,
        dry_run: bool = False,
        progress: Progress = no_progress,
        threads: int = 4,
    ) -> "ExportReport":
        """Write the objects of a ref's commit to a folder, only those that differ from an earlier export there.

        See :func:`graveler.lake.exporting.export.export`. Cost: :meth:`diff` with the commit exported before, one object read
        for each file that is written.
        """
        from graveler.lake.exporting.export import export  # not on the path of a cold start

        return export(
            self, ref, folder, prefix=prefix, verify=verify, dry_run=dry_run, progress=progress, threads=threads
        )

    def import_sources(
        self,
        branch: str,
        sources: "Sequence[ImportSource]",
        message: str,
        *,
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
        only_while: "Check | None" = None,
    ) -> "Imported":
        """As :meth:`import_folder`, of several sorted listings to destinations that do not overlap. ``only_while`` as of
        :meth:`import_listing`."""
        from graveler.lake.importing.importer import Terms

        return self._importer.run(
            branch,
            sources,
            CommitInfo(message, committer, metadata or {}, created, request_id),
            force=force,
            terms=Terms(allow_empty, dry_run),
            only_while=only_while,
        )
