"""Arrow streams behind the table functions. Each can be restarted and reads one fixed state."""

from collections.abc import Callable, Iterator
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from graveler.errors import GravelerError, InvalidError, RefNotFoundError
from graveler.history.expressions import is_base, parse
from graveler.lake.reading.reader import RepositoryReader
from graveler.lake.reading.view import View
from graveler.model import CommitID
from graveler.sql.arrow import schemas, tables
from graveler.sql.calls import Call
from graveler.values.addresses import unquote_ref, without_scheme

if TYPE_CHECKING:
    from graveler.files.lake import LakeHandle
    from graveler.remote.any_repository import AnyRepository
    from graveler.remote.reading import RemoteView

Opened: TypeAlias = Callable[[], pa.RecordBatchReader]


class Source:
    """An Arrow stream, for DuckDB. Reading begins with a stream's first batch, as DuckDB begins streams for their schema alone.
    ``noted`` gets the lake's errors, of which DuckDB has only the text."""

    def __init__(self, schema: pa.Schema, opened: Opened, noted: list[GravelerError]) -> None:
        self._schema = schema
        self._opened = opened
        self._noted = noted

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self._schema, self.batches()).__arrow_c_stream__(requested_schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a new stream."""
        try:
            yield from self._opened()
        except GravelerError as error:
            self._noted.append(error)
            raise


class Sources:
    """The sources of one query. What it names twice is of one state: a branch is looked up once, and ``main~1`` is the parent of
    the same ``main``."""

    def __init__(self, lake: "LakeHandle", noted: list[GravelerError]) -> None:
        self._lake = lake
        self._noted = noted
        self._repositories: dict[str, AnyRepository] = {}
        self._views: dict[tuple[str, str], View | RemoteView] = {}
        self._commits: dict[tuple[str, str], CommitID] = {}
        self._tables: dict[tuple[str, ...], Opened] = {}

    def of(self, call: Call) -> Source:
        """Return the source of a call. Cost: resolving its refs; the rest when it is read. :class:`RefNotFoundError` and others
        of the lake."""
        schema, opened = self._table(call)
        return Source(schema, opened, self._noted)

    def _table(self, call: Call) -> tuple[pa.Schema, Opened]:
        if call.function == "repositories":
            return schemas.REPOSITORIES, self._once(partial(tables.repositories, self._lake.verbs), call.function)
        name, ref = _address(call.arguments[0])
        repository = self._repository(name)
        match call.function:
            case "diff":
                base, changed = (self._commit(name, commit) for commit in call.arguments[1:])
                return schemas.DIFF, partial(tables.diff, repository, base, changed, keys=call.keys)
            case "branches":
                return schemas.BRANCHES, self._once(partial(tables.branches, repository), call.function, name)
            case "tags":
                return schemas.TAGS, self._once(partial(tables.tags, repository), call.function, name)
        ref = ref or repository.repository.default_branch
        match call.function:
            case "objects":
                view = self._view(name, ref)
                return schemas.OBJECTS, lambda: tables.objects_in(view.again(), call.keys)
            case "staged":
                repository.branch(ref)
                state = self._view(name, ref)
                if isinstance(state, View):
                    return schemas.STAGED, lambda: tables.staged_in(state.again(), call.keys)
                return schemas.STAGED, partial(tables.staged, repository, ref, keys=call.keys)
            case "blame":
                return schemas.BLAME, partial(tables.blame, repository, self._commit(name, ref), keys=call.keys)
            case "commits":
                return schemas.COMMITS, partial(tables.commits, repository, self._commit(name, ref))
            case _:
                return schemas.REFLOG, self._once(partial(tables.reflog, repository, ref), call.function, name, ref)

    def _repository(self, name: str) -> "AnyRepository":
        if name not in self._repositories:
            self._repositories[name] = self._lake.verbs.repository(name)
        return self._repositories[name]

    def _view(self, name: str, ref: str) -> "View | RemoteView":
        """Return what a ref shows: a branch with its uncommitted changes, or else a commit."""
        if (name, ref) not in self._views:
            repository = self._repository(name)
            is_open = is_base(ref) and (isinstance(repository, RepositoryReader) or _is_branch(repository, ref))
            self._views[name, ref] = repository.view(ref if is_open else self._commit(name, ref))
        return self._views[name, ref]

    def _commit(self, name: str, ref: str) -> CommitID:
        if (name, ref) not in self._commits:
            self._commits[name, ref] = self._resolved(name, ref)
        return self._commits[name, ref]

    def _resolved(self, name: str, ref: str) -> CommitID:
        repository, expression = self._repository(name), parse(ref)
        if is_base(ref):
            view = self._view(name, ref) if isinstance(repository, RepositoryReader) else None
            return view.commit_id if isinstance(view, View) else repository.commit_of(ref).id
        if expression.past is not None:
            return repository.commit_of(ref).id
        base = self._commit(name, expression.base)
        if not expression.steps:
            return base
        try:
            return repository.commit_of(str(replace(expression, base=base, committed=False))).id
        except RefNotFoundError:
            return repository.commit_of(ref).id  # whose error names the ref as the query does

    def _once(self, read: Opened, *name: str) -> Opened:
        """Return a function that reads a small table the first time, and keeps it for all calls of this name."""
        return self._tables.setdefault(name, _in_memory(read))


def _address(text: str) -> tuple[str, str]:
    """Return repository and ref of an address; the ref may be empty. As no path can follow, its slashes need not be quoted."""
    name, _, ref = without_scheme(text).rstrip("/").partition("/")
    if not name:
        raise InvalidError(f"{text!r} names no repository; write 'REPOSITORY/REF', as in objects('sales/main')")
    return name, unquote_ref(ref)


def _is_branch(repository: "AnyRepository", ref: str) -> bool:
    """Return whether a ref is a branch. One request, if it can be one."""
    try:
        repository.branch(ref)
    except (RefNotFoundError, InvalidError):
        return False
    return True


def _in_memory(read: Opened) -> Opened:
    tables_read: list[pa.Table] = []
    lock = Lock()

    def opened() -> pa.RecordBatchReader:
        with lock:
            if not tables_read:
                tables_read.append(read().read_all())
        return tables_read[0].to_reader()

    return opened
