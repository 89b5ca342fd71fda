"""Tables that do not fit into the memory limit go to temporary files, which are removed in every case."""

import io
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graveler.errors import InvalidError
from graveler.sdk.repository import Repository
from graveler.sql.rowdiff import comparison
from tests.sql.rowdiff.test_rowdiff import committed, diff

AMOUNT = 120_000
TEXT = 700
LIMIT = "100MB"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the temporary files."""
    found = tmp_path / "own"
    monkeypatch.setattr(comparison, "own_path", lambda: found)
    yield found
    assert not found.exists()


def texts(seed: int) -> list[bytes]:
    """Values that cannot be compressed."""
    whole = Random(seed).randbytes(AMOUNT * TEXT)
    return [whole[number * TEXT : (number + 1) * TEXT] for number in range(AMOUNT)]


def contents(values: list[bytes]) -> dict[str, bytes]:
    out = io.BytesIO()
    keys = pa.array(range(len(values)), pa.int64())
    pq.write_table(pa.table({"k": keys, "s": pa.array(values, pa.binary())}), out, row_group_size=10_000)
    return {"t.parquet": out.getvalue()}


@pytest.fixture(scope="module")
def sides() -> tuple[list[bytes], list[bytes]]:
    """All rows but each tenth are others on the second side, and its last hundred are gone."""
    before, other = texts(1), texts(2)
    return before, [
        old if number % 10 == 0 else new for number, (old, new) in enumerate(zip(before, other, strict=True))
    ][:-100]


@pytest.fixture(scope="module")
def repository(sides: tuple[list[bytes], list[bytes]]) -> Repository:
    return committed(*map(contents, sides))


@pytest.mark.parametrize("keys", [["k"], []])
def test_differences_beyond_the_limit_are_in_files_and_complete(
    folder: Path, repository: Repository, sides: tuple[list[bytes], list[bytes]], keys: list[str]
) -> None:
    before, after = sides
    old, new = set(enumerate(before)), set(enumerate(after))
    with diff(repository, "t.parquet", keys, memory_limit=LIMIT) as found:
        on_disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        assert on_disk > 20_000_000
        removed, added = set[tuple[int, bytes]](), set[tuple[int, bytes]]()
        for change in found:
            if change.before is not None:
                removed.add((change.before["k"], change.before["s"]))
            if change.after is not None:
                added.add((change.after["k"], change.after["s"]))
        assert removed == old - new
        assert added == new - old
        both = len({number for number, _ in removed} & {number for number, _ in added})
        assert (found.added, found.removed, found.changed) == (
            (0, 100, both) if keys else (len(added), len(removed), 0)
        )


def test_a_limit_that_is_too_low_is_told(folder: Path, repository: Repository) -> None:
    with pytest.raises(InvalidError, match="memory_limit"):
        diff(repository, "t.parquet", ["k"], memory_limit="1MB")


def test_nothing_is_left_when_it_is_interrupted(
    folder: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        assert any(folder.rglob("*"))  # the differences are made
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "Comparison", interrupted)
    with pytest.raises(KeyboardInterrupt):
        diff(repository, "t.parquet", ["k"], memory_limit=LIMIT)
