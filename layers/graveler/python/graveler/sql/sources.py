"""What a call of a table function reads: Arrow streams that DuckDB may begin several times, all of one state."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from graveler.arrow import schemas, tables
from graveler.errors import GravelerError, InvalidError
from graveler.sql.calls import Call

if TYPE_CHECKING:
    from graveler.anywhere import AnyRepository
    from graveler.lake.reading.view import View
    from graveler.remote.reading import RemoteView
    from graveler.sdk.lake import Lake

_SCHEMES: Final = ("graveler://", "lakefs://")


class Source:
    """An Arrow stream, for DuckDB. Reading begins with a stream's first batch, as DuckDB begins streams for their schema alone.
    ``noted`` gets the lake's errors, of which DuckDB has only the text."""

    def __init__(
        self, schema: pa.Schema, opened: Callable[[], pa.RecordBatchReader], noted: list[GravelerError]
    ) -> None:
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
    """The sources of one query: a ref that it names twice is resolved once."""

    def __init__(self, lake: "Lake", noted: list[GravelerError]) -> None:
        self._lake = lake
        self._noted = noted
        self._repositories: dict[str, AnyRepository] = {}
        self._views: dict[tuple[str, str], View | RemoteView] = {}

    def of(self, call: Call) -> Source:
        """Return the source of a call. Cost: resolving its refs; the rest when it is read. :class:`RefNotFoundError` and others
        of the lake."""
        schema, opened = self._found(call)
        return Source(schema, opened, self._noted)

    def _found(self, call: Call) -> tuple[pa.Schema, Callable[[], pa.RecordBatchReader]]:
        if call.function == "repositories":
            return schemas.REPOSITORIES, _once(partial(tables.repositories, self._lake.verbs))
        name, ref = _address(call.arguments[0])
        verbs = self._repository(name)
        match call.function:
            case "diff":
                left, right = (verbs.commit_of(each).id for each in call.arguments[1:])
                return schemas.DIFF, partial(tables.diff, verbs, left, right, keys=call.keys)
            case "branches":
                return schemas.BRANCHES, _once(partial(tables.branches, verbs))
            case "tags":
                return schemas.TAGS, _once(partial(tables.tags, verbs))
        ref = ref or verbs.repository.default_branch
        match call.function:
            case "objects":
                view = self._view(name, ref)
                return schemas.OBJECTS, lambda: tables.objects_in(view.again(), call.keys)
            case "staged":
                verbs.branch(ref)
                return schemas.STAGED, partial(tables.staged, verbs, ref, keys=call.keys)
            case "blame":
                return schemas.BLAME, partial(tables.blame, verbs, verbs.commit_of(ref).id, keys=call.keys)
            case "commits":
                return schemas.COMMITS, partial(tables.commits, verbs, verbs.commit_of(ref).id)
            case _:
                return schemas.REFLOG, _once(partial(tables.reflog, verbs, ref))

    def _repository(self, name: str) -> "AnyRepository":
        if name not in self._repositories:
            self._repositories[name] = self._lake.repository(name).verbs
        return self._repositories[name]

    def _view(self, name: str, ref: str) -> "View | RemoteView":
        if (name, ref) not in self._views:
            self._views[name, ref] = self._repository(name).view(ref)
        return self._views[name, ref]


def _address(text: str) -> tuple[str, str]:
    """Return repository and ref of an address; the ref may be empty."""
    for scheme in _SCHEMES:
        text = text.removeprefix(scheme)
    name, _, ref = text.rstrip("/").partition("/")
    if not name:
        raise InvalidError(f"{text!r} names no repository; write 'REPOSITORY/REF', as in objects('sales/main')")
    return name, ref


def _once(read: Callable[[], pa.RecordBatchReader]) -> Callable[[], pa.RecordBatchReader]:
    """Return a function that reads a small table the first time, and keeps it."""
    kept: list[pa.Table] = []

    def opened() -> pa.RecordBatchReader:
        if not kept:
            kept.append(read().read_all())
        return kept[0].to_reader()

    return opened
