"""Attempts of a run without its processes: a function stands for the program."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from graveler.gateway.control import Tally
from graveler.gateway.run.folders.places import FolderPlace
from graveler.gateway.run.folders.run_folders import RunFolders
from graveler.gateway.run.publication import Publication, publish
from graveler.lake.context import Context
from graveler.lake.refs.hidden_branch import hidden_branch
from graveler.lake.repository import OpenRepository
from graveler.requests.base import CommitInfo
from graveler.requests.committing import Commit
from graveler.requests.staging import Upload


@dataclass(frozen=True)
class Prefix:
    """A prefix of branch main, and a folder for its objects."""

    repository: OpenRepository
    prefix: str
    folder: Path
    all_folders: list[RunFolders] = field(default_factory=list)

    def commit(self, files: Mapping[str, bytes], content_type: str = "", **metadata: str) -> str:
        """Commit these objects, and return the commit's ID."""
        for name, data in files.items():
            self.upload("main", name, data, content_type, **metadata)
        return self.repository.run(Commit(branch="main", info=CommitInfo("Files"), allow_empty=True)).id

    def upload(self, branch: str, name: str, data: bytes, content_type: str = "", **metadata: str) -> None:
        """Stage an object."""
        upload = Upload(branch=branch, path=self.prefix + name, content_type=content_type, metadata=metadata)
        self.repository.run(upload, Context(body=data))

    def objects(self, ref: str = "main") -> dict[str, bytes]:
        """The objects of a ref by their names below the prefix."""
        return {
            entry.path.removeprefix(self.prefix): b"".join(self.repository.bytes_in(ref, entry))
            for entry in self.repository.objects(ref, self.prefix)
        }

    @contextmanager
    def filled(self, *, read_only: bool = False) -> Iterator[tuple[RunFolders, str]]:
        """The folder during a run, and the hidden branch of that."""
        folders = RunFolders([FolderPlace(folder=self.folder, prefix=self.prefix, read_only=read_only)])
        self.all_folders.append(folders)
        with folders.made(), hidden_branch(self.repository, "main", "ada") as hidden:
            folders.fill(self.repository, hidden)
            yield folders, hidden

    def run(self, program: Callable[[str], object], *, read_only: bool = False) -> Tally:
        """Run a function, which is given the hidden branch, and publish what it changed."""
        with self.filled(read_only=read_only) as (folders, hidden):
            program(hidden)
            tally = folders.stage(self.repository, hidden, Tally)
            publish(self.repository, hidden, Publication(branch="main", message="Run"), "ada")
        return tally

    @property
    def remaining(self) -> tuple[Path, ...]:
        """The folders that the last run left."""
        return self.all_folders[-1].remaining


def files_in(folder: Path) -> dict[str, bytes]:
    """The files below a folder by their names."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
