"""A lake in plain dicts: what a user would see of it; and what is seen of a real one, in the same form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import md5
from typing import Final

from graveler.errors import InvalidError
from graveler.lake.iceberg.metadata_files import read_document
from graveler.lake.iceberg.table_folders import folder_of
from graveler.lake.iceberg.table_states import reader_in
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.lake.settings.change import read_settings
from graveler.model import ObjectEntry
from graveler.table_format.reached_files import reached_files
from graveler.values.reserved_paths import FILES, RESERVED, is_table


@dataclass
class BranchModel:
    """A branch: its head's objects, what is staged (None deletes), and the messages along first parents, the newest first."""

    committed: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=lambda: ["Repository created"])
    staged: dict[str, str | None] = field(default_factory=dict)

    @property
    def current(self) -> dict[str, str]:
        return {path: text for path, text in {**self.committed, **self.staged}.items() if text is not None}

    def commit(self, message: str, changes: Mapping[str, str | None] | None = None) -> None:
        self.staged |= changes or {}
        self.committed, self.staged = self.current, {}
        self.said.insert(0, message)


@dataclass
class RepositoryModel:
    """A repository: branches, the objects that tags name, and settings."""

    branches: dict[str, BranchModel] = field(default_factory=lambda: {"main": BranchModel()})
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    read_only: bool = False
    days: int = 0


Model = dict[str, RepositoryModel]
"""A lake: repositories by name."""


def shown(model: Model) -> object:
    """What a user sees of the model, in the form of :func:`seen`."""
    return {
        name: (
            {
                branch: (dict(sorted(b.committed.items())), dict(sorted(b.current.items())), b.said)
                for branch, b in sorted(repository.branches.items())
            },
            {tag: dict(sorted(held.items())) for tag, held in sorted(repository.tags.items())},
            (repository.metadata, repository.protected, repository.read_only, repository.days),
        )
        for name, repository in sorted(model.items())
    }


def seen(lake: Lake) -> object:
    """What a user sees of the lake."""
    return {known.name: _seen_of(lake.repository(known.name)) for known in lake.repositories().results}


def _seen_of(repository: OpenRepository) -> object:
    branches = {
        branch.name: (
            texts(repository, f"{branch.name}@"),
            texts(repository, branch.name),
            [commit.message for commit in repository.log(branch.name, amount=1000, first_parent=True).results],
        )
        for branch in repository.branches(show_hidden=True).results
    }
    tags = {tag.name: texts(repository, tag.name) for tag in repository.tags().results}
    settings = read_settings(repository.parts)
    days = 0 if settings.retention is None else settings.retention.default_days
    return branches, tags, (dict(settings.metadata), settings.protected, settings.read_only, days)


def texts(repository: OpenRepository, ref: str) -> dict[str, str]:
    """Each object's text, and its own metadata behind it; of a table its properties and data files."""
    entries = list(repository.objects(ref))
    linked = {entry.address for entry in entries if entry.path.startswith(FILES.decode())}
    return {
        entry.path: (_TEXTS.get(entry.checksum) or repository.read(ref, entry.path).decode())
        + "".join(f" {key}={value}" for key, value in entry.metadata.items())
        for entry in entries
        if not entry.path.startswith(RESERVED.decode())
    } | {entry.path: _text_of_table(repository, entry, linked) for entry in entries if is_table(entry.path.encode())}


def _text_of_table(repository: OpenRepository, entry: ObjectEntry, linked: set[str]) -> str:
    """The properties and data files of a table, all of whose files are there and linked; or that it lies elsewhere now."""
    parts = repository.parts
    document = read_document(parts, entry, "")
    try:
        folder = folder_of(parts, document["table-uuid"], document["location"])
    except InvalidError:
        return MOVED
    read = reader_in(parts, folder)
    locations = sorted(reached_files(document, read))
    for location in locations:
        assert f"{parts.namespace}/{folder.key_of(location)}" in linked, location
        read(location)
    data = [location.rpartition("/")[2] for location in locations if "/data/" in location]
    return " ".join([*data, *(f"{name}={text}" for name, text in sorted(document["properties"].items()))])


MOVED: Final = "moved"
_TEXTS: Final = {md5(text.encode()).hexdigest(): text for text in "0123456789"}
"""The texts that objects hold in these lakes, by their checksum: reading them would be slow."""


def public(model: Model) -> object:
    """Without what a case has laid by."""
    return shown({name: repository for name, repository in model.items() if name != "was"})
