"""Requests that change settings, refs and commits, as methods with keywords, for local lakes and for lakes behind a server."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from graveler import requests
from graveler.lake.context import UNLIMITED, Context
from graveler.lake.objects.stage import Accept
from graveler.model import (
    Application,
    Branch,
    Commit,
    CommitID,
    MergeStrategies,
    MergeStrategy,
    MetarangeName,
    ObjectEntry,
    RetentionRules,
    SplitParameters,
    Tag,
)
from graveler.requests.base import CommitInfo, Request
from graveler.system.progress import ObjectProgress, no_object_progress

if TYPE_CHECKING:
    from graveler.requests.exporting import ExportReport
    from graveler.requests.importing import ImportAddress, Imported, ListingOptions

T = TypeVar("T")


class RequestMethods(Protocol):
    """Methods that each build a request from their arguments and run it. A server records the owner of the access key, whatever
    ``committer`` says. Name this class last among the bases: before another one, a protocol hides its ``__init__``."""

    @abstractmethod
    def run(self, request: Request[T], context: Context = UNLIMITED) -> T:
        """Run a request. Its class documents its effect, cost and errors."""
        ...

    def set_metadata(self, metadata: Mapping[str, str], *, force: bool = False) -> Mapping[str, str]:
        """See :class:`graveler.requests.settings.SetMetadata`."""
        return self.run(requests.settings.SetMetadata(metadata=metadata, force=force))

    def delete_metadata(self, keys: Iterable[str], *, force: bool = False) -> Mapping[str, str]:
        """See :class:`graveler.requests.settings.DeleteMetadata`."""
        return self.run(requests.settings.DeleteMetadata(keys=tuple(keys), force=force))

    def set_protection(self, patterns: Iterable[str], *, if_match: str | None = None, force: bool = False) -> str:
        """See :class:`graveler.requests.settings.SetProtection`."""
        return self.run(requests.settings.SetProtection(patterns=tuple(patterns), if_match=if_match, force=force))

    def protect(self, patterns: Iterable[str], *, force: bool = False) -> tuple[str, ...]:
        """See :class:`graveler.requests.settings.Protect`."""
        return self.run(requests.settings.Protect(patterns=tuple(patterns), force=force))

    def unprotect(self, patterns: Iterable[str], *, force: bool = False) -> tuple[str, ...]:
        """See :class:`graveler.requests.settings.Unprotect`."""
        return self.run(requests.settings.Unprotect(patterns=tuple(patterns), force=force))

    def set_retention(self, rules: RetentionRules, *, force: bool = False) -> None:
        """See :class:`graveler.requests.settings.SetRetention`."""
        self.run(requests.settings.SetRetention(rules=rules, force=force))

    def delete_retention(self, *, force: bool = False) -> None:
        """See :class:`graveler.requests.settings.DeleteRetention`."""
        self.run(requests.settings.DeleteRetention(force=force))

    def set_import_sources(self, prefixes: Iterable[str] | None, *, force: bool = False) -> None:
        """See :class:`graveler.requests.settings.SetImportSources`."""
        named = None if prefixes is None else tuple(prefixes)
        self.run(requests.settings.SetImportSources(prefixes=named, force=force))

    def set_read_only(self, read_only: bool) -> None:
        """See :class:`graveler.requests.settings.SetReadOnly`."""
        self.run(requests.settings.SetReadOnly(read_only=read_only))

    def create_branch(
        self, name: str, source: str, *, by: str = "", hidden: bool = False, force: bool = False, owner: str = ""
    ) -> Branch:
        """See :class:`graveler.requests.refs.CreateBranch`."""
        request = requests.refs.CreateBranch(name=name, source=source, hidden=hidden, owner=owner, force=force)
        return self.run(request, Context(by=by))

    def renew_branch(self, name: str, owner: str) -> None:
        """See :class:`graveler.requests.refs.RenewBranch`."""
        self.run(requests.refs.RenewBranch(name=name, owner=owner))

    def release_branch(self, name: str, owner: str) -> None:
        """See :class:`graveler.requests.refs.ReleaseBranch`."""
        self.run(requests.refs.ReleaseBranch(name=name, owner=owner))

    def delete_branch(self, name: str, *, by: str = "", force: bool = False, at: CommitID | None = None) -> None:
        """See :class:`graveler.requests.refs.DeleteBranch`."""
        self.run(requests.refs.DeleteBranch(name=name, at=at, force=force), Context(by=by))

    def rename_branch(self, old: str, new: str, *, by: str = "", force: bool = False) -> Branch:
        """See :class:`graveler.requests.refs.RenameBranch`."""
        return self.run(requests.refs.RenameBranch(old=old, new=new, force=force), Context(by=by))

    def hard_reset(self, branch: str, ref: str, *, by: str = "", force: bool = False, request_id: str = "") -> Branch:
        """See :class:`graveler.requests.refs.HardReset`."""
        request = requests.refs.HardReset(branch=branch, ref=ref, request_id=request_id, force=force)
        return self.run(request, Context(by=by))

    def undo(self, branch: str, *, by: str = "", force: bool = False, request_id: str = "") -> Branch:
        """See :class:`graveler.requests.refs.Undo`."""
        return self.run(requests.refs.Undo(branch=branch, request_id=request_id, force=force), Context(by=by))

    def create_tag(self, name: str, ref: str, *, by: str = "", force: bool = False) -> Tag:
        """See :class:`graveler.requests.refs.CreateTag`."""
        return self.run(requests.refs.CreateTag(name=name, ref=ref, force=force), Context(by=by))

    def delete_tag(self, name: str, *, by: str = "", force: bool = False) -> None:
        """See :class:`graveler.requests.refs.DeleteTag`."""
        self.run(requests.refs.DeleteTag(name=name, force=force), Context(by=by))

    def upload(
        self,
        branch: str,
        path: str,
        data: bytes | Path,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        if_absent: bool = False,
        progress: ObjectProgress = no_object_progress,
        force: bool = False,
    ) -> ObjectEntry:
        """See :class:`graveler.requests.staging.Upload`. ``data`` is the bytes, or a file."""
        request = requests.staging.Upload(
            branch=branch,
            path=path,
            content_type=content_type,
            metadata=metadata or {},
            if_absent=if_absent,
            force=force,
        )
        return self.run(request, Context(body=data, progress=progress))

    def link(
        self,
        branch: str,
        entry: ObjectEntry,
        *,
        if_absent: bool = False,
        force: bool = False,
        accept: Accept | None = None,
    ) -> None:
        """See :class:`graveler.requests.staging.Link`."""
        request = requests.staging.Link(branch=branch, entry=entry, if_absent=if_absent, force=force)
        self.run(request, UNLIMITED if accept is None else Context(accept=accept))

    def link_many(
        self, branch: str, entries: Iterable[ObjectEntry], *, force: bool = False, accept: Accept | None = None
    ) -> None:
        """See :class:`graveler.requests.staging.LinkMany`."""
        self.run(requests.staging.LinkMany(branch=branch, entries=tuple(entries), force=force), Context(accept=accept))

    def delete(self, branch: str, paths: Iterable[str], *, force: bool = False) -> None:
        """See :class:`graveler.requests.staging.Delete`."""
        self.run(requests.staging.Delete(branch=branch, objects=tuple(paths), force=force))

    def copy(
        self, branch: str, source_path: str, destination_path: str, *, source_ref: str = "", force: bool = False
    ) -> ObjectEntry:
        """See :class:`graveler.requests.staging.Copy`."""
        request = requests.staging.Copy(
            branch=branch,
            source_path=source_path,
            destination_path=destination_path,
            source_ref=source_ref,
            force=force,
        )
        return self.run(request)

    def duplicate(
        self, branch: str, source_path: str, destination_path: str, *, source_ref: str = "", force: bool = False
    ) -> ObjectEntry:
        """See :class:`graveler.requests.staging.Duplicate`."""
        request = requests.staging.Duplicate(
            branch=branch,
            source_path=source_path,
            destination_path=destination_path,
            source_ref=source_ref,
            force=force,
        )
        return self.run(request)

    def copy_prefix(
        self, branch: str, source_prefix: str, destination_prefix: str, *, source_ref: str = "", force: bool = False
    ) -> Iterator[ObjectEntry]:
        """See :class:`graveler.requests.staging.CopyPrefix`."""
        request = requests.staging.CopyPrefix(
            branch=branch,
            source_prefix=source_prefix,
            destination_prefix=destination_prefix,
            source_ref=source_ref,
            force=force,
        )
        return self.run(request)

    def move(self, branch: str, source_path: str, destination_path: str, *, force: bool = False) -> ObjectEntry:
        """See :class:`graveler.requests.staging.Move`."""
        request = requests.staging.Move(
            branch=branch, source_path=source_path, destination_path=destination_path, force=force
        )
        return self.run(request)

    def move_prefix(
        self, branch: str, source_prefix: str, destination_prefix: str, *, force: bool = False
    ) -> Iterator[tuple[str, ObjectEntry]]:
        """See :class:`graveler.requests.staging.MovePrefix`."""
        request = requests.staging.MovePrefix(
            branch=branch, source_prefix=source_prefix, destination_prefix=destination_prefix, force=force
        )
        return self.run(request)

    def update_metadata(
        self, branch: str, path: str, metadata: Mapping[str, str], *, force: bool = False
    ) -> ObjectEntry:
        """See :class:`graveler.requests.staging.UpdateMetadata`."""
        return self.run(requests.staging.UpdateMetadata(branch=branch, path=path, metadata=metadata, force=force))

    def reset(
        self, branch: str, *, path: str | None = None, prefix: str | None = None, by: str = "", force: bool = False
    ) -> None:
        """See :class:`graveler.requests.staging.Reset`."""
        self.run(requests.staging.Reset(branch=branch, path=path, prefix=prefix, force=force), Context(by=by))

    def commit(
        self,
        branch: str,
        message: str,
        *,
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        allow_empty: bool = False,
        created: int | None = None,
        progress: ObjectProgress = no_object_progress,
        force: bool = False,
    ) -> Commit:
        """See :class:`graveler.requests.committing.Commit`."""
        info = CommitInfo(message, committer, metadata or {}, created, request_id)
        request = requests.committing.Commit(branch=branch, info=info, allow_empty=allow_empty, force=force)
        return self.run(request, Context(progress=progress))

    def commit_metarange(
        self,
        branch: str,
        metarange: MetarangeName,
        message: str,
        *,
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        allow_empty: bool = False,
        created: int | None = None,
        force: bool = False,
        parent: CommitID | None = None,
    ) -> Commit:
        """See :class:`graveler.requests.committing.CommitMetarange`."""
        return self.run(
            requests.committing.CommitMetarange(
                branch=branch,
                metarange=metarange,
                parent=parent,
                info=CommitInfo(message, committer, metadata or {}, created, request_id),
                allow_empty=allow_empty,
                force=force,
            )
        )

    def merge(
        self,
        source: str,
        destination: str,
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE,
        squash: bool = False,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        progress: ObjectProgress = no_object_progress,
        force: bool = False,
        unchanged_prefixes: Sequence[str] = (),
        application: Application | None = None,
        beside_uncommitted: bool = False,
        expected_head: CommitID | None = None,
        expected_destination: CommitID | None = None,
    ) -> Commit:
        """See :class:`graveler.requests.merging.Merge`."""
        request = requests.merging.Merge(
            source=source,
            destination=destination,
            info=CommitInfo(message, committer, metadata or {}, created, request_id),
            strategies=strategies_of(strategy),
            squash=squash,
            allow_empty=allow_empty,
            force=force,
            unchanged_prefixes=tuple(unchanged_prefixes),
            application=application,
            beside_uncommitted=beside_uncommitted,
            expected_head=expected_head,
            expected_destination=expected_destination,
        )
        return self.run(request, Context(progress=progress))

    def revert(
        self,
        branch: str,
        ref: str,
        *,
        parent_number: int = 0,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
    ) -> Commit:
        """See :class:`graveler.requests.merging.Revert`."""
        info = CommitInfo(message, committer, metadata or {}, created, request_id)
        return self.run(
            requests.merging.Revert(
                branch=branch,
                ref=ref,
                parent_number=parent_number,
                info=info,
                strategies=strategies_of(strategy),
                allow_empty=allow_empty,
                force=force,
            )
        )

    def cherry_pick(
        self,
        branch: str,
        ref: str,
        *,
        parent_number: int = 0,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
    ) -> Commit:
        """See :class:`graveler.requests.merging.CherryPick`."""
        info = CommitInfo(message, committer, metadata or {}, created, request_id)
        return self.run(
            requests.merging.CherryPick(
                branch=branch,
                ref=ref,
                parent_number=parent_number,
                info=info,
                strategies=strategies_of(strategy),
                allow_empty=allow_empty,
                force=force,
            )
        )

    def rewrite(
        self,
        branch: str,
        split: SplitParameters,
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
    ) -> Commit:
        """See :class:`graveler.requests.committing.Rewrite`."""
        info = CommitInfo(message, committer, metadata or {}, created, request_id)
        return self.run(requests.committing.Rewrite(branch=branch, split=split, info=info, force=force))

    def import_addresses(
        self,
        branch: str,
        addresses: "Sequence[ImportAddress]",
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        progress: ObjectProgress = no_object_progress,
        created: int | None = None,
        force: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
        trust_mtime: bool = False,
        folders: bool = False,
        exclude: Sequence[str] = (),
        ignore: bool = False,
    ) -> "Imported":
        """See :class:`graveler.requests.importing.ImportAddresses`."""
        request = requests.importing.ImportAddresses(
            branch=branch,
            sources=tuple(addresses),
            info=CommitInfo(message, committer, metadata or {}, created, request_id),
            force=force,
            allow_empty=allow_empty,
            dry_run=dry_run,
            trust_mtime=trust_mtime,
            folders=folders,
            exclude=tuple(exclude),
            ignore=ignore,
        )
        return self.run(request, Context(progress=progress))

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
        progress: ObjectProgress = no_object_progress,
        created: int | None = None,
        force: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
        trust_mtime: bool = False,
        copy: bool = False,
        exclude: Sequence[str] = (),
        ignore: bool = False,
    ) -> "Imported":
        """See :class:`graveler.requests.importing.ImportFolder`."""
        request = requests.importing.ImportFolder(
            branch=branch,
            folder=folder,
            destination=destination,
            info=CommitInfo(message, committer, metadata or {}, created, request_id),
            force=force,
            allow_empty=allow_empty,
            dry_run=dry_run,
            trust_mtime=trust_mtime,
            copy=copy,
            exclude=tuple(exclude),
            ignore=ignore,
        )
        return self.run(request, Context(progress=progress))

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
        progress: ObjectProgress = no_object_progress,
        created: int | None = None,
        force: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
        label: str = "",
    ) -> "Imported":
        """See :class:`graveler.requests.importing.ImportListing`. ``listing`` is a file, several files, or a folder of them."""
        request = requests.importing.ImportListing(
            branch=branch,
            listing=(listing,) if isinstance(listing, Path) else tuple(listing),
            options=options or requests.importing.ListingOptions(),
            info=CommitInfo(message, committer, metadata or {}, created, request_id),
            force=force,
            allow_empty=allow_empty,
            dry_run=dry_run,
            label=label,
        )
        return self.run(request, Context(progress=progress))

    def export(
        self,
        ref: str,
        folder: Path,
        *,
        prefix: str = "",
        verify: bool = False,
        dry_run: bool = False,
        progress: ObjectProgress = no_object_progress,
        threads: int = 4,
    ) -> "ExportReport":
        """See :class:`graveler.requests.exporting.Export`."""
        request = requests.exporting.Export(
            ref=ref, folder=folder, prefix=prefix, verify=verify, dry_run=dry_run, threads=threads
        )
        return self.run(request, Context(progress=progress))


def strategies_of(strategy: MergeStrategy | MergeStrategies) -> MergeStrategies:
    """Return one strategy for all paths as strategies by prefix."""
    return MergeStrategies(strategy) if isinstance(strategy, MergeStrategy) else strategy
