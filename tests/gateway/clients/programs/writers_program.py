"""Writers that commit to one table at the same time, by delta-rs, Lance or Icechunk: CLIENT PLACE WRITERS COMMITS VERB...

The verbs are `create`, `write` (all writers, each in a thread), the number of a writer (that one alone) and `check`. Each commit
adds the number `writer * COMMITS + commit`; one that is refused for the sake of another is repeated as its client repeats it.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

PATIENCE = 1000
"""Attempts of a commit before a client gives up."""


class Delta:
    """A Delta table."""

    def __init__(self, place: str) -> None:
        self.address = f"s3://{place}/many-deltalake"

    def create(self, numbers: int) -> None:
        """Create it, empty."""
        self._append([])

    def add(self, number: int) -> None:
        """Commit a number."""
        self._append([number])

    def check(self, numbers: int) -> None:
        """Each commit is a version, and each number is there once."""
        import pyarrow
        from deltalake import DeltaTable, QueryBuilder

        table = DeltaTable(self.address)
        assert table.version() == numbers, table.version()
        assert [entry["version"] for entry in table.history()] == list(range(numbers, -1, -1))
        rows = QueryBuilder().register("numbers", table).execute("SELECT number FROM numbers").read_all()
        assert sorted(pyarrow.table(rows)["number"].to_pylist()) == list(range(numbers))

    def _append(self, numbers: list[int]) -> None:
        import pyarrow
        from deltalake import CommitProperties, write_deltalake

        write_deltalake(
            self.address,
            pyarrow.table({"number": pyarrow.array(numbers, pyarrow.int64())}),
            mode="append",
            commit_properties=CommitProperties(max_commit_retries=PATIENCE),
        )


class Lance:
    """A dataset of Lance."""

    def __init__(self, place: str) -> None:
        self.address = f"s3://{place}/many-pylance"

    def create(self, numbers: int) -> None:
        """Create it, empty."""
        self._write([], "create")

    def add(self, number: int) -> None:
        """Commit a number. Lance repeats a commit 20 times, and then leaves it to its caller."""
        for _ in range(PATIENCE):
            with suppress(OSError):
                return self._write([number], "append")
        raise TimeoutError(f"{number} was not committed in {PATIENCE} attempts")

    def check(self, numbers: int) -> None:
        """Each commit is a version, and each number is there once."""
        import lance

        dataset = lance.dataset(self.address)
        assert dataset.version == numbers + 1, dataset.version
        assert [entry["version"] for entry in dataset.versions()] == list(range(1, numbers + 2))
        assert sorted(dataset.to_table()["number"].to_pylist()) == list(range(numbers))

    def _write(self, numbers: list[int], mode: str) -> None:
        import lance
        import pyarrow

        lance.write_dataset(pyarrow.table({"number": pyarrow.array(numbers, pyarrow.int64())}), self.address, mode=mode)


class Icechunk:
    """A repository of Icechunk, with an array that has a chunk for each number."""

    def __init__(self, place: str) -> None:
        import icechunk

        bucket, _, prefix = place.partition("/")
        self.storage = icechunk.s3_storage(bucket=bucket, prefix=f"{prefix}/many-icechunk".lstrip("/"), from_env=True)

    def create(self, numbers: int) -> None:
        """Create it, with an array of zeros."""
        import icechunk
        import zarr

        session = icechunk.Repository.create(self.storage).writable_session("main")
        zarr.create_array(session.store, name="numbers", shape=(numbers,), chunks=(1,), dtype="i4", fill_value=0)
        session.commit("all zeros")

    def add(self, number: int) -> None:
        """Commit a chunk."""
        import icechunk

        session = self._repository().writable_session("main")
        self._array(session)[number] = number + 1
        session.commit(f"{number}", rebase_with=icechunk.BasicConflictSolver(), rebase_tries=PATIENCE)

    def check(self, numbers: int) -> None:
        """Each commit is in the history, and each chunk is there."""
        repository = self._repository()
        commits = [entry.message for entry in repository.ancestry(branch="main")]
        assert sorted(commits[:numbers], key=int) == [str(number) for number in range(numbers)]
        assert commits[numbers] == "all zeros"
        assert list(self._array(repository.readonly_session("main"))[:]) == list(range(1, numbers + 1))

    def _repository(self) -> Any:
        import icechunk

        return icechunk.Repository.open(self.storage)

    def _array(self, session: Any) -> Any:
        import zarr

        return zarr.open_array(session.store, path="numbers", mode="r" if session.read_only else "r+")


TABLES: dict[str, type[Any]] = {"deltalake": Delta, "pylance": Lance, "icechunk": Icechunk}


def main(client: str, place: str, writers: int, commits: int, verbs: list[str]) -> None:
    """Do one after the other."""
    table = TABLES[client](place)
    for verb in verbs:
        match verb:
            case "create":
                table.create(writers * commits)
            case "check":
                table.check(writers * commits)
            case "write":
                with ThreadPoolExecutor(writers) as threads:
                    list(threads.map(lambda writer: commit_all(table, writer, commits), range(writers)))
            case _:
                commit_all(table, int(verb), commits)


def commit_all(table: Any, writer: int, commits: int) -> None:
    """Commit the numbers of a writer."""
    for commit in range(commits):
        table.add(writer * commits + commit)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
