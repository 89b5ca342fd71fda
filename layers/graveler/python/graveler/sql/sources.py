"""What a call of a table function reads: Arrow streams that DuckDB may begin several times, all of one state."""

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
    from graveler.remote.any_repository import AnyRepository
    from graveler.remote.reading import RemoteView
    from graveler.sdk.lake import Lake

Opened: TypeAlias = Callable[[], pa.RecordBatchReader]


class Source:
    """An Arrow stream, for DuckDB. Reading begins with a stream's first batch, as DuckDB begins streams for their schema alone.
    ``noted`` gets the lake's errors, of which DuckDB has only the text."""

    def __init__(self, schema: pa.Schema, opened: Opened, noted: list[GravelerError]) -> None:
        self._schema = schema
        self._opened = opened
        self._noted = noted

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._opened()
        except GravelerError as error:
            self._noted.append(error)
            raise


class Sources:
    """The sources of one query. What it names twice is of one state: a branch is looked up once, and ``main~1`` is the parent of
    the same ``main``."""

    def __init__(self, lake: "Lake", noted: list[GravelerError]) -> None:
        self._lake = lake
        self._noted = noted
        self._repositories: dict[str, AnyRepository] = {}
        self._views: dict[tuple[str, str], View | RemoteView] = {}
        self._commits: dict[tuple[str, str], CommitID] = {}
        self._tables: dict[tuple[str, ...], Opened] = {}

    def of(self, call: Call) -> Source:
        """Return the source of a call. Cost: resolving its refs; the rest when it is read. :class:`RefNotFoundError` and others
        of the lake."""
        schema, opened = self._found(call)
        return Source(schema, opened, self._noted)

    def _found(self, call: Call) -> tuple[pa.Schema, Opened]:
        if call.function == "repositories":
            return schemas.REPOSITORIES, self._once(partial(tables.repositories, self._lake.verbs), call.function)
        name, ref = _address(call.arguments[0])
        verbs = self._repository(name)
        match call.function:
            case "diff":
                left, right = (self._commit(name, each) for each in call.arguments[1:])
                return schemas.DIFF, partial(tables.diff, verbs, left, right, keys=call.keys)
            case "branches":
                return schemas.BRANCHES, self._once(partial(tables.branches, verbs), call.function, name)
            case "tags":
                return schemas.TAGS, self._once(partial(tables.tags, verbs), call.function, name)
        ref = ref or verbs.repository.default_branch
        match call.function:
            case "objects":
                view = self._view(name, ref)
                return schemas.OBJECTS, lambda: tables.objects_in(view.again(), call.keys)
            case "staged":
                verbs.branch(ref)
                state = self._view(name, ref)
                if isinstance(state, View):
                    return schemas.STAGED, lambda: tables.staged_in(state.again(), call.keys)
                return schemas.STAGED, partial(tables.staged, verbs, ref, keys=call.keys)
            case "blame":
                return schemas.BLAME, partial(tables.blame, verbs, self._commit(name, ref), keys=call.keys)
            case "commits":
                return schemas.COMMITS, partial(tables.commits, verbs, self._commit(name, ref))
            case _:
                return schemas.REFLOG, self._once(partial(tables.reflog, verbs, ref), call.function, name, ref)

    def _repository(self, name: str) -> "AnyRepository":
        if name not in self._repositories:
            self._repositories[name] = self._lake.repository(name).verbs
        return self._repositories[name]

    def _view(self, name: str, ref: str) -> "View | RemoteView":
        """Return what a ref shows: a branch with its uncommitted changes, or else a commit."""
        if (name, ref) not in self._views:
            verbs = self._repository(name)
            is_open = is_base(ref) and (isinstance(verbs, RepositoryReader) or _is_branch(verbs, ref))
            self._views[name, ref] = verbs.view(ref if is_open else self._commit(name, ref))
        return self._views[name, ref]

    def _commit(self, name: str, ref: str) -> CommitID:
        if (name, ref) not in self._commits:
            self._commits[name, ref] = self._resolved(name, ref)
        return self._commits[name, ref]

    def _resolved(self, name: str, ref: str) -> CommitID:
        verbs, expression = self._repository(name), parse(ref)
        if is_base(ref):
            view = self._view(name, ref) if isinstance(verbs, RepositoryReader) else None
            return view.commit_id if isinstance(view, View) else verbs.commit_of(ref).id
        if expression.past is not None:
            return verbs.commit_of(ref).id
        below = self._commit(name, expression.base)
        if not expression.steps:
            return below
        try:
            return verbs.commit_of(str(replace(expression, base=below, at=False))).id
        except RefNotFoundError:
            return verbs.commit_of(ref).id  # whose error names the ref as the query does

    def _once(self, read: Opened, *named: str) -> Opened:
        """Return a function that reads a small table the first time, and keeps it for all calls that are ``named`` so."""
        return self._tables.setdefault(named, _kept(read))


def _address(text: str) -> tuple[str, str]:
    """Return repository and ref of an address; the ref may be empty. As no path can follow, its slashes need not be quoted."""
    name, _, ref = without_scheme(text).rstrip("/").partition("/")
    if not name:
        raise InvalidError(f"{text!r} names no repository; write 'REPOSITORY/REF', as in objects('sales/main')")
    return name, unquote_ref(ref)


def _is_branch(verbs: "AnyRepository", ref: str) -> bool:
    """Return whether a ref is a branch. One request, if it can be one."""
    try:
        verbs.branch(ref)
    except (RefNotFoundError, InvalidError):
        return False
    return True


def _kept(read: Opened) -> Opened:
    kept: list[pa.Table] = []
    lock = Lock()

    def opened() -> pa.RecordBatchReader:
        with lock:
            if not kept:
                kept.append(read().read_all())
        return kept[0].to_reader()

    return opened
