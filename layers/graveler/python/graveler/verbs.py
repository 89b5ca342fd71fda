"""What a face needs of a lake, wherever it is: the verbs that both a lake of this process and one behind the HTTP API have.

:class:`graveler.lake.lake.Lake` and :class:`graveler.lake.repository.OpenRepository` have them, and say what each does and costs;
:class:`graveler.remote.lake.RemoteLake` and :class:`graveler.remote.repository.RemoteRepository` ask a server to do the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from graveler.lake.methods import RequestMethods
from graveler.model import (
    DEFAULT_CONTENT_TYPE,
    Branch,
    Change,
    Commit,
    CommitID,
    CommonPrefix,
    MergePreview,
    MergeStrategies,
    MergeStrategy,
    ObjectEntry,
    Page,
    Repository,
    RetentionRules,
    Tag,
)

if TYPE_CHECKING:
    from graveler.history.reflog import LogEntry
    from graveler.lake.checked import OpenedObject
    from graveler.lake.exporting.export import ExportReport
    from graveler.lake.importing.object_listing import ListingOptions
    from graveler.lake.summary import Summary, Usage
    from graveler.requests.importing import Imported

Progress = Callable[[int, int], None]
"""Told how many objects, and how many bytes, were done since it was told last."""


def no_progress(objects: int, size: int) -> None:
    """Tells nobody."""


class ReadingVerbs(Protocol):
    """What changes nothing: see :class:`graveler.lake.reading.RepositoryReader`."""

    @property
    def repository(self) -> Repository: ...
    def commit_of(self, ref: str) -> Commit: ...
    def branch(self, name: str) -> Branch: ...
    def branches(
        self, prefix: str = "", after: str = "", amount: int = 100, *, show_hidden: bool = False
    ) -> Page[Branch]: ...
    def tag(self, name: str) -> Tag: ...
    def tags(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Tag]: ...
    def reflog(self, branch: str, amount: int = 100) -> "list[LogEntry]": ...
    def stat(self, ref: str, path: str) -> ObjectEntry: ...
    def stat_many(self, ref: str, paths: Sequence[str]) -> list[ObjectEntry | None]: ...
    def list_objects(
        self, ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[ObjectEntry | CommonPrefix]: ...
    def objects(self, ref: str, prefix: str = "") -> Iterator[ObjectEntry]: ...
    def du(self, ref: str, prefix: str = "", delimiter: str = "") -> "Usage": ...
    def stream(self, ref: str, path: str, start: int = 0, length: int | None = None) -> Iterator[bytes]: ...
    def bytes_in(
        self, ref: str, entry: ObjectEntry, start: int = 0, length: int | None = None, *, verify: bool = True
    ) -> Iterator[bytes]: ...
    def open_object(self, ref: str, path: str) -> "OpenedObject": ...
    def read(self, ref: str, path: str) -> bytes: ...
    def uncommitted(
        self, branch: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]: ...
    def uncommitted_summary(self, branch: str, *, prefix: str = "", delimiter: str = "") -> "Summary": ...
    def log(
        self,
        ref: str,
        *,
        after: CommitID | None = None,
        amount: int = 100,
        first_parent: bool = False,
        since: int | None = None,
        stop_at: str | None = None,
        paths: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        limit: bool = False,
    ) -> Page[Commit]: ...
    def blame(self, ref: str, path: str) -> Commit: ...
    def annotate(
        self, ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[tuple[ObjectEntry | CommonPrefix, Commit]]: ...
    def merge_base(self, left: str, right: str) -> Commit | None: ...
    def diff(
        self, left: str, right: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]: ...
    def compare(
        self, left: str, right: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]: ...
    def diff_summary(self, left: str, right: str, *, prefix: str = "", delimiter: str = "") -> "Summary": ...
    def compare_summary(self, left: str, right: str, *, prefix: str = "", delimiter: str = "") -> "Summary": ...
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
    ) -> "ExportReport": ...


class RepositoryVerbs(ReadingVerbs, RequestMethods, Protocol):
    """All verbs of a repository: see :class:`graveler.lake.repository.OpenRepository`. Who asks a server changes things in the
    name of its access key, whatever ``by`` and ``committer`` say."""

    def metadata(self) -> Mapping[str, str]: ...
    def protection(self) -> tuple[tuple[str, ...], str]: ...
    def retention(self) -> RetentionRules | None: ...
    def upload(
        self,
        branch: str,
        path: str,
        data: bytes | Path,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
        if_absent: bool = False,
        force: bool = False,
    ) -> ObjectEntry: ...
    def delete(self, branch: str, paths: Iterable[str], *, force: bool = False) -> None: ...
    def copy(
        self, branch: str, source_path: str, destination_path: str, *, source_ref: str = "", force: bool = False
    ) -> ObjectEntry: ...
    def copy_prefix(
        self, branch: str, source_prefix: str, destination_prefix: str, *, source_ref: str = "", force: bool = False
    ) -> Iterator[ObjectEntry]: ...
    def move(self, branch: str, source_path: str, destination_path: str, *, force: bool = False) -> ObjectEntry: ...
    def move_prefix(
        self, branch: str, source_prefix: str, destination_prefix: str, *, force: bool = False
    ) -> Iterator[tuple[str, ObjectEntry]]: ...
    def update_metadata(
        self, branch: str, path: str, metadata: Mapping[str, str], *, force: bool = False
    ) -> ObjectEntry: ...
    def reset(
        self, branch: str, *, path: str | None = None, prefix: str | None = None, by: str = "", force: bool = False
    ) -> None: ...
    def preview_merge(
        self, source: str, destination: str, strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE
    ) -> MergePreview: ...
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
        force: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
        trust_mtime: bool = False,
    ) -> "Imported": ...
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
        force: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
    ) -> "Imported": ...


class LakeVerbs(Protocol):
    """Repositories that are kept together: see :class:`graveler.lake.lake.Lake`."""

    @property
    def home(self) -> str: ...
    def repository(self, name: str) -> RepositoryVerbs: ...
    def repositories(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Repository]: ...
    def create_repository(
        self,
        name: str,
        namespace: str,
        *,
        default_branch: str = "main",
        by: str = "",
        read_only: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> RepositoryVerbs: ...
    def delete_repository(self, name: str, *, force: bool = False) -> None: ...
    @property
    def close(self) -> Callable[[], None]: ...
    def __enter__(self) -> "LakeVerbs": ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
