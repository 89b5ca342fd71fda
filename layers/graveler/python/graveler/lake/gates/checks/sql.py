"""Checks by queries: the tables of candidate and base are copied to a folder, and a process of its own queries them.

Copies, and not the lake's files: the query's process may open what DuckDB's settings allow, and no setting is as sure as a file
that is not there. Copying 534 MB took 0.24 s of the processor; a file that candidate and base share is copied once.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, CorruptError, InvalidError
from graveler.lake.gates.checks.child_process import run_child
from graveler.lake.gates.checks.definitions import Selection, SqlCheck
from graveler.lake.gates.checks.inputs import CheckInput
from graveler.lake.gates.checks.sql_protocol import Answer, Request, Table
from graveler.lake.gates.checks.verdicts import PASSED, Verdict
from graveler.model import ObjectEntry, StatusState
from graveler.storage.durable_files import unavailable
from graveler.system.temporary_files import own_folder
from graveler.text.readable import human_size
from graveler.tree.tree import Tree

_MODULE: Final = "graveler.lake.gates.checks.sql_process"
_ROWS: Final = 10
_CHARACTERS: Final = 100
_MOST_OUTPUT: Final = 1 << 20
_MOST_FILES: Final = 100_000
_PARSE_SECONDS: Final = 20
_VARIABLES: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZDIR")
"""The variables that the process gets, and no others: it has no use for secrets, nor for a home."""

_SUFFIX: Final = re.compile(r"\.(parquet|csv|tsv|json|jsonl|ndjson)(\.gz|\.zst)?$", re.IGNORECASE)
_FORMATS: Final = {"tsv": "csv", "jsonl": "json", "ndjson": "json"}
_SPECIAL: Final = re.compile(r"[*?\[\]\x00-\x1f\x7f]")
_LONGEST_PART: Final = 250


class _File(Struct, frozen=True):
    """An object, and the name of its copy."""

    entry: ObjectEntry
    name: str


def expect_query(definition: SqlCheck) -> None:
    """:class:`InvalidError` unless the query is one SELECT that DuckDB can parse. Cost: a process, 0.3 s."""
    answer = _run(Request(query=definition.query, parse_only=True), _PARSE_SECONDS, lambda: None)
    if not isinstance(answer, Answer) or answer.error:
        reason = answer.error if isinstance(answer, Answer) else answer
        raise InvalidError(f"the query of a check cannot be run: {reason}")


def check_sql(definition: SqlCheck, source: CheckInput) -> Verdict:
    """Run the query; it passes without rows. A process that fails, or is ended, is an error. Cost: the ranges with the tables'
    files, one object read for each file."""
    with _temporary_folder() as folder:
        copies = _Copies(definition, source, folder)
        tables = [copies.table(name, pattern) for name, pattern in definition.tables.items()]
        problem = next((table for table in tables if isinstance(table, str)), None) or copies.problem
        if problem:
            return Verdict(StatusState.ERROR, problem)
        copies.write()
        request = Request(
            query=definition.query,
            tables=tuple(table for table in tables if isinstance(table, Table)),
            folder=str(folder),
            memory=definition.memory,
            seconds=definition.seconds,
            threads=min(4, os.cpu_count() or 1),
            rows=_ROWS + 1,
            characters=_CHARACTERS,
        )
        answer = _run(request, definition.seconds, source.stop)
    if isinstance(answer, str):
        return Verdict(StatusState.ERROR, f"the query was not completed: {answer}")
    if answer.error:
        return Verdict(StatusState.ERROR, answer.error)
    if not answer.rows:
        return PASSED
    rows = "; ".join(_row(answer.columns, row) for row in answer.rows[:_ROWS])
    number = f"more than {_ROWS} rows" if len(answer.rows) > _ROWS else "rows"
    return Verdict(StatusState.FAILURE, f"the query returned {number}: {rows}")


def _row(columns: Iterable[str], row: Iterable[str | None]) -> str:
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in zip(columns, row, strict=True))


class _Copies:
    """The files of a check's tables: each object that candidate or base have, once. ``problem`` says why they cannot be read."""

    def __init__(self, definition: SqlCheck, source: CheckInput, folder: Path) -> None:
        self._definition = definition
        self._source = source
        self._folder = folder
        self._files: dict[tuple[str, str], _File] = {}
        self._bytes = 0
        self.problem = ""

    def table(self, name: str, pattern: str) -> Table | str:
        """Return a table with the names of its files, or why there is none. Cost: the ranges with these objects."""
        selection = Selection.of_table(pattern)
        candidate = self._add(self._source.candidate_tree, selection)
        base = self._add(self._source.base_tree, selection) if self._definition.uses_base else []
        files = (*candidate, *base)
        if not files:
            return f"neither the candidate nor the base has an object that matches {pattern!r}, the table {name!r}"
        formats = {_format(file.entry.path) for file in files}
        if len(formats) != 1 or "" in formats:
            unknown = next((file.entry.path for file in files if not _format(file.entry.path)), files[0].entry.path)
            return f"the files of table {name!r} must all be Parquet, CSV or JSON by their suffix; one is {unknown!r}"
        keys = {tuple(part.partition("=")[0] for part in file.name.split("/")[:-1]) for file in files}
        return Table(
            name,
            formats.pop(),
            tuple(file.name for file in candidate),
            tuple(file.name for file in base) if self._definition.uses_base else None,
            partitioned=len(keys) == 1 and keys != {()},
        )

    def _add(self, tree: Tree, selection: Selection) -> list[_File]:
        files = []
        for key, packed in self._source.watched(self._source.selected(tree, selection)):
            if self.problem:
                break
            entry = self._source.repository.codec.decode(key, packed)
            partitions = _partitions(entry.path)
            file = self._files.get((entry.address, partitions))
            if file is None:
                suffix = _SUFFIX.search(entry.path)
                file = _File(entry, f"{partitions}{len(self._files):06}{suffix[0].lower() if suffix else ''}")
                self._files[entry.address, partitions] = file
                self._bytes += entry.size
                self._expect_bounded(entry.path, partitions)
            files.append(file)
        return files

    def _expect_bounded(self, path: str, partitions: str) -> None:
        most = self._definition.most_bytes
        if self._bytes > most:
            self.problem = f"the tables have more than {human_size(most)}, the most_bytes of the check"
        elif len(self._files) > _MOST_FILES:
            self.problem = f"the tables have more than {_MOST_FILES:,} files"
        elif any(len(part.encode()) > _LONGEST_PART for part in partitions.split("/")):
            self.problem = f"a folder of {path!r} has a name that is too long for a file system"

    def write(self) -> None:
        """Copy the objects. Cost: one object read each."""
        for _ in self._source.in_threads(self._write, self._files.values()):
            """A copy is on the disk."""

    def _write(self, file: _File) -> None:
        objects, key = self._source.store_of(file.entry.address)
        path = self._folder / file.name
        written = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as copy:
                for piece in objects.stream(key, 0, file.entry.size + 1):
                    written += copy.write(piece)
        except OSError as error:
            raise unavailable(error, f"copying {file.entry.path!r} for a check") from None
        if written != file.entry.size:
            raise CorruptError(
                f"{file.entry.path!r} should have {file.entry.size:,} bytes, and has others; upload it again"
            )


def _format(path: str) -> str:
    match = _SUFFIX.search(path)
    return "" if match is None else _FORMATS.get(match[1].lower(), match[1].lower())


def _partitions(path: str) -> str:
    """Return the folders ``column=value/`` of a path, with escapes for what DuckDB takes for a pattern, and for what no file
    system has in a name."""
    return "".join(
        f"{_SPECIAL.sub(lambda match: f'%{ord(match[0]):02X}', part)}/"
        for part in path.split("/")[:-1]
        if "=" in part[1:]
    )


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    try:
        folder = Path(mkdtemp(prefix="check-", dir=own_folder()))
    except OSError as error:
        raise unavailable(error, "making a temporary folder for a check") from None
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


def _run(request: Request, seconds: float, stop: Callable[[], None]) -> Answer | str:
    """Return the answer of the process, or why there is none."""
    ending = run_child(
        [sys.executable, "-P", "-m", _MODULE],
        msgspec.json.encode(request),
        seconds=seconds,
        most_output=_MOST_OUTPUT,
        stop=stop,
        environment=_environment(),
    )
    if ending.code != 0:
        lines = ending.errors.decode(errors="replace").strip().splitlines()
        return ending.reason + (f" ({lines[-1][:200]})" if lines else "")
    try:
        return msgspec.json.decode(ending.output, type=Answer)
    except UNREADABLE as error:
        return f"its answer cannot be read: {error}"


def _environment() -> Mapping[str, str]:
    variables = {name: value for name in _VARIABLES if (value := os.environ.get(name))}
    # A heap for each thread would reserve address space, which is bounded; a home would have extensions and secrets of DuckDB.
    return {**variables, "MALLOC_ARENA_MAX": "2", "HOME": "/nonexistent"}
