"""Every verb, every request to a port, every kind of fault: what may be there afterwards, by a model in plain dicts.

One :class:`Case` is a verb in a small lake. :func:`boundaries` lists the requests of an undisturbed run; :func:`experiment`
runs the verb with faults at given requests, and then lets a fresh process go on: it repeats the verb, or goes on without it. Then

- all or nothing: the lake is as before, or as after the verb (verbs that say that they work piece by piece: each piece is);
- acknowledged is done: without an error, it is as after the verb; and a repeated verb succeeds, once;
- the next commits work, and wait no longer than a lease;
- each branch's reference log is a line that ends at its head, and fsck finds nothing wrong (garbage is no wrong).

To add a verb: append a :class:`Case` to :data:`CASES`, with what it does to the model.
"""

from collections.abc import Callable, KeysView, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import md5
from itertools import count, pairwise
from pathlib import Path
from shutil import copytree
from time import time
from typing import Final, Literal, Protocol, get_args

from graveler.errors import (
    AlreadyExistsError,
    GravelerError,
    NoChangesError,
    NotFoundError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from graveler.lake.importing.object_listing import ListingOptions
from graveler.lake.importing.prefix_listing import AddressType, ImportAddress
from graveler.lake.in_parts.asks import Ask, CommitAsk, MergeAsk
from graveler.lake.in_parts.commits import HANDOVER
from graveler.lake.in_parts.work import Sizes
from graveler.lake.lake import Lake
from graveler.lake.publish import COMMITS_FOLDER
from graveler.lake.repositories import MARKER
from graveler.lake.repository import OpenRepository
from graveler.lake.sealing import LEASE
from graveler.model import MergeStrategy, ObjectEntry, RetentionRules
from graveler.staging.cleanup import LONGEST_REQUEST
from graveler.storage.folder_objects import FolderObjects
from graveler.storage.memory_objects import MemoryObjects
from graveler.storage.memory_tables import MemoryTables
from graveler.storage.objects import Objects
from graveler.storage.sqlite_tables import SqliteTables
from graveler.storage.tables import Tables
from tests.lake.support import NAME, TINY, DieAt, Died, FakeClock, died
from tests.support.instruments import Boundaries, Fault, FaultyObjects, FaultyTables

Kind = Literal["fail_before", "refuse", "fail_after", "repeat", "late", "very_late", "die_before", "die_after"]
"""As :data:`tests.support.instruments.Fault`. ``late``: the request hangs until leases have run out, the verb is told that it
failed, and it arrives before anybody looks; ``very_late``: it arrives only after a fresh process has gone on. ``die_before``,
``die_after``: the process is killed before or after the request had its effect."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
READ_KINDS: Final[tuple[Kind, ...]] = ("refuse", "late", "die_before")
"""Of a request that changes nothing: before or after is one to it, once or twice, and soon or late."""
SAME_PATH_KINDS: Final[tuple[Kind, ...]] = ("fail_after", "die_after")
SAME_PATH_READ_KINDS: Final[tuple[Kind, ...]] = ("die_before",)
"""In the short form, of a verb whose requests another case makes by the same code, and which have every kind there."""
READS: Final = frozenset({"get", "get_many", "query", "get_range", "stream", "head", "list"})

Way = Literal["repeat", "go on"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)

HANGS: Final = 60.0
"""Seconds until a client gives a request up."""

CLAIM: Final = 700.0
"""Seconds after which what a creator that died had claimed may be claimed."""


# The model


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
            _texts(repository, f"{branch.name}@"),
            _texts(repository, branch.name),
            [commit.message for commit in repository.log(branch.name, amount=1000, first_parent=True).results],
        )
        for branch in repository.branches(show_hidden=True).results
    }
    tags = {tag.name: _texts(repository, tag.name) for tag in repository.tags().results}
    settings = repository._settings.read()
    days = 0 if settings.retention is None else settings.retention.default_days
    return branches, tags, (dict(settings.metadata), settings.protected, settings.read_only, days)


def _texts(repository: OpenRepository, ref: str) -> dict[str, str]:
    """Each object's text, and its own metadata behind it."""
    return {
        entry.path: (_TEXTS.get(entry.checksum) or repository.read(ref, entry.path).decode())
        + "".join(f" {key}={value}" for key, value in entry.metadata.items())
        for entry in repository.objects(ref)
    }


_TEXTS: Final = {md5(text.encode()).hexdigest(): text for text in "0123456789"}
"""The texts that objects hold in these lakes, by their checksum: reading them would be slow."""


# The lakes


class TickingClock(FakeClock):
    """No two rows of the reference log are of one moment."""

    def now(self) -> float:
        self.time += 0.001
        return self.time


class Scene(Protocol):
    """A lake's storage, its time, and a folder beside it for what verbs write outside."""

    clock: TickingClock
    tables: Tables
    outside: Path

    def objects(self, namespace: str) -> Objects: ...

    def copy(self, folder: Path) -> "Scene":
        """The same again, to be changed by itself."""
        ...

    def close(self) -> None: ...


class MemoryScene:
    """In memory: quick."""

    def __init__(self, outside: Path, clock: TickingClock | None = None) -> None:
        self.clock = clock or TickingClock()
        self.tables: Tables = MemoryTables()
        self.outside = outside
        self._stores: dict[str, MemoryObjects] = {}

    def objects(self, namespace: str) -> Objects:
        if namespace not in self._stores:
            self._stores[namespace] = MemoryObjects(namespace, lambda: self.clock.time)
        return self._stores[namespace]

    def copy(self, folder: Path) -> "MemoryScene":
        # By the adapters' insides: written anew through the port, objects would have other times and tags.
        other = MemoryScene(folder)
        other.clock.time = self.clock.time
        assert isinstance(self.tables, MemoryTables)
        assert isinstance(other.tables, MemoryTables)
        other.tables._partitions = {
            partition: (list(keys), dict(bodies)) for partition, (keys, bodies) in self.tables._partitions.items()
        }
        for namespace, store in self._stores.items():
            twin = other.objects(namespace)
            assert isinstance(twin, MemoryObjects)
            twin._objects, twin._keys = dict(store._objects), list(store._keys)
            twin._serial = count(1_000_000)
        return other

    def close(self) -> None:
        pass


class FolderScene:
    """On SQLite and folders."""

    def __init__(self, folder: Path) -> None:
        self.clock = TickingClock(time())  # files have the machine's time
        self.folder = folder
        self.outside = folder / "outside"
        self.outside.mkdir(parents=True, exist_ok=True)
        self._tables = SqliteTables(folder / "tables.sqlite")
        self.tables: Tables = self._tables

    def objects(self, namespace: str) -> Objects:
        return FolderObjects(self.folder / "objects" / namespace.removeprefix("mem://"), namespace)

    def copy(self, folder: Path) -> "FolderScene":
        self._tables.close()
        # (The copy may lie in what is copied.)
        copytree(
            self.folder,
            folder,
            dirs_exist_ok=True,
            ignore=lambda inside, names: [name for name in names if Path(inside, name) == folder],
        )
        other = FolderScene(folder)
        other.clock.time = self.clock.time
        return other

    def close(self) -> None:
        self._tables.close()


def client(
    scene: Scene, schedule: Callable[[str, int], Fault] = lambda *_: None, seen: Boundaries | None = None
) -> Lake:
    """A process that has just begun."""
    seen = seen or Boundaries()
    return Lake(
        FaultyTables(scene.tables, schedule, seen),
        lambda namespace: FaultyObjects(scene.objects(namespace), schedule, seen),
        clock=scene.clock,
    )


class Faults:
    """A schedule with one fault of a kind at one request."""

    def __init__(self, ordinal: int, kind: Kind, clock: FakeClock) -> None:
        self._ordinal, self._kind, self._clock = ordinal, kind, clock
        self.dead = False
        self.met = False

    def __call__(self, _: str, number: int) -> Fault:
        if self.dead:
            raise Died
        if number != self._ordinal:
            return None
        self.met = True
        match self._kind:
            case "die_before":
                self.dead = True
                raise Died
            case "die_after":
                self.dead = True
                return "fail_after"
            case "late" | "very_late":
                self._clock.time += HANGS
                return "late"
            case other:
                return other


# The verbs

Verb = Callable[[Lake, Scene], object]


@dataclass(frozen=True)
class Case:
    """One verb in one lake.

    ``prepare`` adds to the lake of :func:`story`, and says so in the model. ``effect`` is what ``run`` does to the model.
    ``again`` are the errors with which a repeated verb may say that it was done before. ``pieces`` are the paths on ``main`` of
    which each is changed by itself. ``verify`` looks at what the model does not show, and is told whether the verb was repeated.
    ``once``: repeating it means something else. ``heals``: before, fsck finds something wrong. ``like``: the case that makes the
    same requests by the same code; the short form then tries fewer kinds of fault (:data:`SAME_PATH_KINDS`), at every request.
    ``lease``: for how many seconds others may have to wait when it died.
    """

    name: str
    run: Verb
    effect: Callable[[Model], None] = lambda _: None
    prepare: Callable[[Lake, Scene, Model], None] = lambda *_: None
    again: tuple[type[GravelerError], ...] = ()
    pieces: tuple[str, ...] = ()
    verify: Callable[[Scene, Model, bool], None] = lambda *_: None
    once: bool = False
    heals: bool = False
    like: str = ""
    lease: float = LEASE


def put(repository: OpenRepository, branch: str, files: Mapping[str, str | None]) -> None:
    for path, text in files.items():
        if text is None:
            repository.delete(branch, [path])
        else:
            repository.upload(branch, path, text.encode())


def entry(path: str, text: str) -> ObjectEntry:
    return ObjectEntry(path, f"mem://elsewhere/{path}/{text}", len(text), md5(text.encode()).hexdigest(), 0)


def story(lake: Lake, model: Model) -> None:
    """``main`` and ``side`` have each a commit on a common one; ``spare`` has uncommitted changes; a tag."""
    repository = lake.create_repository(NAME, "mem://repo", split=TINY)
    main = BranchModel()
    put(repository, "main", one := {"a": "1", "b": "1", "p/x": "1", "p/y": "1"})
    repository.commit("main", "one")
    main.commit("one", dict(one))
    repository.create_branch("side", "main")
    side = deepcopy(main)
    put(repository, "side", {"s": "1", "p/y": None})
    repository.commit("side", "side")
    side.commit("side", {"s": "1", "p/y": None})
    put(repository, "main", {"b": "2"})
    repository.commit("main", "two")
    tag = dict(main.committed)
    main.commit("two", {"b": "2"})
    repository.create_tag("v1", "main~1")
    repository.create_branch("spare", "main")
    spare = deepcopy(main)
    put(repository, "spare", {"z": "1", "a": None})
    spare.staged = {"z": "1", "a": None}
    model[NAME] = RepositoryModel({"main": main, "side": side, "spare": spare}, {"v1": tag})


def main_of(model: Model) -> BranchModel:
    return model[NAME].branches["main"]


STAGED: Final[Mapping[str, str | None]] = {"a": "9", "p/x": "9", "p/n": "1", "q": "1", "b": None}
MANY: Final = tuple(f"m/{number:02}" for number in range(30))
"""More than a batch of the table."""


def stage(lake: Lake, _: Scene, model: Model) -> None:
    put(lake.repository(NAME), "main", STAGED)
    main_of(model).staged |= STAGED


def stage_many(lake: Lake, _: Scene, model: Model) -> None:
    lake.repository(NAME).link_many("main", [entry(path, "1") for path in MANY])
    main_of(model).staged |= dict.fromkeys(MANY, "1")


def die_committing(lake: Lake, scene: Scene, model: Model) -> None:
    """A commit has sealed what is staged, and is dead; more is staged over it."""
    stage(lake, scene, model)
    assert died(lambda: client(scene, DieAt("put")).repository(NAME).commit("main", "dead"))
    scene.clock.time += HANGS
    more = {"a": "8", "p/y": None, "r": "1"}
    put(lake.repository(NAME), "main", more)
    main_of(model).staged |= more


def nothings(lake: Lake, _: Scene, __: Model) -> None:
    """What is staged changes nothing, but would hide what a merge brings."""
    put(lake.repository(NAME), "main", {"s": None, "p/y": "1"})


def clean_up_is_due(lake: Lake, scene: Scene, model: Model) -> None:
    scene.clock.time += LONGEST_REQUEST + 10
    stage(lake, scene, model)


def drop(model: Model, *paths: str) -> None:
    for path in paths:
        main_of(model).staged.pop(path, None)


def merged(model: Model, message: str) -> None:
    main_of(model).commit(message, {"s": "1", "p/y": None})


def moved(model: Model) -> None:
    main = main_of(model)
    main.committed, main.staged, main.said = dict(model[NAME].tags["v1"]), {}, main.said[1:]


def dump_and_delete(lake: Lake, _: Scene, model: Model) -> None:
    lake.dump(NAME)
    lake.delete_repository(NAME)
    model["was"] = model.pop(NAME)


def restored(model: Model) -> None:
    model[NAME] = model.pop("was")


def lose_copies(_: Lake, scene: Scene, __: Model) -> None:
    """The store lost its copies of two commits, and to whom the namespace belongs."""
    objects = scene.objects("mem://repo")
    for stored in [*objects.list(f"{COMMITS_FOLDER}/")][:2]:
        objects.delete(stored.key)
    objects.delete(MARKER)


def exported_to(scene: Scene) -> Path:
    return scene.outside / "export"


def check_export(scene: Scene, model: Model, repeated: bool) -> None:
    if repeated:
        found = {
            path.relative_to(exported_to(scene)).as_posix(): path.read_text()
            for path in exported_to(scene).rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }
        assert found == main_of(model).committed


def check_dumps(scene: Scene, model: Model, repeated: bool) -> None:
    """Each dump that is listed is whole: restored into an empty table, it is what was dumped."""
    lake = client(scene)
    ids = lake.dumps("mem://repo")
    assert ids or not repeated
    for dump_id in ids:
        elsewhere = scene.copy(scene.outside / dump_id)
        try:
            elsewhere.tables = MemoryTables()
            other = client(elsewhere)
            other.restore("mem://repo", dump_id, NAME)
            assert seen(other) == shown(model)
        finally:
            elsewhere.close()


def upload_in_parts(lake: Lake, _: Scene) -> object:
    repository = lake.repository(NAME)
    upload = repository.begin_upload("main", "k")
    part = repository.upload_part("main", "k", upload, 1, b"5")
    return repository.finish_upload("main", "k", upload, [(1, part)])


def commit_ready(lake: Lake, _: Scene) -> object:
    repository = lake.repository(NAME)
    metarange = repository.commit_of("v1").metarange
    return repository.commit_metarange("main", metarange, "ready", request_id="r")


def taken_over(model: Model) -> None:
    main = main_of(model)
    main.commit("ready")
    main.committed = dict(model[NAME].tags["v1"])


def in_either_place(_: Scene, model: Model, __: bool) -> None:
    """What is moved is at its old path, at its new one, or at both."""
    current = main_of(model).current
    for old, new in (("a", "k"), ("p/x", "c/x"), ("p/y", "c/y")):
        assert old in current or new in current


def create_repository(lake: Lake, _: Scene) -> object:
    return lake.create_repository("new", "mem://new", split=TINY)


def import_folder(lake: Lake, scene: Scene) -> object:
    folder = scene.outside / "source"
    folder.mkdir(exist_ok=True)
    (folder / "i").write_text("3")
    (folder / "x").write_text("4")
    return lake.repository(NAME).import_folder("main", folder, "p/", message="import", request_id="r")


def import_listing(lake: Lake, scene: Scene) -> object:
    folder = scene.outside
    folder.mkdir(exist_ok=True)
    (folder / "listing.csv").write_text(
        "".join(f"{path},1,{md5(text.encode()).hexdigest()}\n" for path, text in (("i", "3"), ("x", "4")))
    )
    options = ListingOptions(destination="p/", base="mem://elsewhere/", columns=("Key", "Size", "ETag"))
    return lake.repository(NAME).import_listing(
        "main", folder / "listing.csv", options, message="import", request_id="r"
    )


def import_addresses(lake: Lake, scene: Scene) -> object:
    folder = scene.outside / "source"
    folder.mkdir(exist_ok=True)
    (folder / "i").write_text("3")
    address = ImportAddress(AddressType.OBJECT, f"file://{folder.absolute()}/i", "b")
    return lake.repository(NAME).import_addresses("main", [address], message="import", request_id="r")


def note_metadata(lake: Lake, _: Scene, model: Model) -> None:
    lake.repository(NAME).set_metadata({"owner": "me", "team": "a"})
    model[NAME].metadata.update(owner="me", team="a")


def protect_main(lake: Lake, _: Scene, model: Model) -> None:
    lake.repository(NAME).protect(["main", "v*"])
    model[NAME].protected = ("main", "v*")


def make_read_only(lake: Lake, _: Scene, model: Model) -> None:
    lake.repository(NAME).set_read_only(True)
    model[NAME].read_only = True


def in_parts(lake: Lake, ask: Callable[[OpenRepository], Ask]) -> None:
    """All the steps of an operation, each of which finds what the ones before have left in the store."""
    for number in range(10):
        repository = lake.repository(NAME)
        operation = repository.in_parts(
            "operation", ask(repository), began=repository.clock.now(), sizes=Sizes(records=1, parts=3)
        )
        for part in range(operation.plan(number).parts):
            operation.run_part(part, number)
        if operation.publish(number) is not None:
            return
    raise AssertionError("no round is the last one")


CASES: list[Case] = [
    Case(
        "create repository",
        create_repository,
        lambda model: model.update(new=RepositoryModel()),
        again=(AlreadyExistsError,),
    ),
    Case(
        "delete repository",
        lambda lake, _: lake.delete_repository(NAME),
        lambda model: model.__delitem__(NAME),
        again=(RepositoryNotFoundError,),
    ),
    Case(
        "create branch",
        lambda lake, _: lake.repository(NAME).create_branch("new", "main~1"),
        lambda model: model[NAME].branches.update(
            new=BranchModel(dict(model[NAME].tags["v1"]), main_of(model).said[1:])
        ),
        again=(AlreadyExistsError,),
    ),
    Case(
        "delete branch",
        lambda lake, _: lake.repository(NAME).delete_branch("spare"),
        lambda model: model[NAME].branches.__delitem__("spare"),
        again=(RefNotFoundError,),
    ),
    Case(
        "rename branch",
        lambda lake, _: lake.repository(NAME).rename_branch("spare", "renamed"),
        lambda model: model[NAME].branches.update(renamed=model[NAME].branches.pop("spare")),
        again=(RefNotFoundError,),
    ),
    Case(
        "create tag",
        lambda lake, _: lake.repository(NAME).create_tag("v2", "main"),
        lambda model: model[NAME].tags.update(v2=dict(main_of(model).committed)),
        again=(AlreadyExistsError,),
    ),
    Case(
        "delete tag",
        lambda lake, _: lake.repository(NAME).delete_tag("v1"),
        lambda model: model[NAME].tags.__delitem__("v1"),
        again=(RefNotFoundError,),
    ),
    Case(
        "upload",
        lambda lake, _: lake.repository(NAME).upload("main", "k", b"5"),
        lambda model: main_of(model).staged.update(k="5"),
    ),
    Case(
        "link",
        lambda lake, _: lake.repository(NAME).link("main", entry("a", "5")),
        lambda model: main_of(model).staged.update(a="5"),
    ),
    Case(
        "link many",
        lambda lake, _: lake.repository(NAME).link_many("main", [entry(path, "5") for path in MANY]),
        lambda model: main_of(model).staged.update(dict.fromkeys(MANY, "5")),
        pieces=MANY,
    ),
    Case(
        "upload if absent",
        lambda lake, _: lake.repository(NAME).upload("main", "k", b"5", if_absent=True),
        lambda model: main_of(model).staged.update(k="5"),
        again=(AlreadyExistsError,),  # of other bytes: each upload has its own
    ),
    Case(
        "link if absent, over a tombstone",
        lambda lake, _: lake.repository(NAME).link("main", entry("b", "5"), if_absent=True),
        lambda model: main_of(model).staged.update(b="5"),
        stage,
        again=(AlreadyExistsError,),
    ),
    Case("upload in parts", upload_in_parts, lambda model: main_of(model).staged.update(k="5")),
    Case(
        "copy",
        lambda lake, _: lake.repository(NAME).copy("main", "b", "k", source_ref="v1"),
        lambda model: main_of(model).staged.update(k="1"),
    ),
    Case(
        "move",
        lambda lake, _: lake.repository(NAME).move("main", "a", "k"),
        lambda model: main_of(model).staged.update(a=None, k="1"),
        again=(ObjectNotFoundError,),
        pieces=("a", "k"),
        verify=in_either_place,
    ),
    Case(
        "move prefix",
        lambda lake, _: list(lake.repository(NAME).move_prefix("main", "p/", "c/")),
        lambda model: main_of(model).staged.update({"p/x": None, "p/y": None, "c/x": "1", "c/y": "1"}),
        pieces=("p/x", "p/y", "c/x", "c/y"),
        verify=in_either_place,
    ),
    Case(
        "copy prefix",
        lambda lake, _: list(lake.repository(NAME).copy_prefix("main", "p/", "c/", source_ref="v1")),
        lambda model: main_of(model).staged.update({"c/x": "1", "c/y": "1"}),
        pieces=("c/x", "c/y"),
        like="move prefix",
    ),
    Case(
        "update metadata",
        lambda lake, _: lake.repository(NAME).update_metadata("main", "a", {"k": "v"}),
        lambda model: main_of(model).staged.update(a="1 k=v"),
    ),
    Case(
        "update metadata of what is staged",
        lambda lake, _: lake.repository(NAME).update_metadata("main", "q", {"k": "v"}),
        lambda model: main_of(model).staged.update(q="1 k=v"),
        stage,
    ),
    Case(
        "set metadata",
        lambda lake, _: lake.repository(NAME).set_metadata({"owner": "me"}),
        lambda model: model[NAME].metadata.update(owner="me"),
    ),
    Case(
        "delete metadata",
        lambda lake, _: lake.repository(NAME).delete_metadata(["owner"]),
        lambda model: model[NAME].metadata.__delitem__("owner"),
        note_metadata,
        like="set metadata",
    ),
    Case(
        "set retention",
        lambda lake, _: lake.repository(NAME).set_retention(RetentionRules(30)),
        lambda model: setattr(model[NAME], "days", 30),
        like="set metadata",
    ),
    Case(
        "unprotect",
        lambda lake, _: lake.repository(NAME).unprotect(["main"]),
        lambda model: setattr(model[NAME], "protected", ("v*",)),
        protect_main,
        again=(NotFoundError,),
    ),
    Case(
        "allow changes again",
        lambda lake, _: lake.repository(NAME).set_read_only(False),
        lambda model: setattr(model[NAME], "read_only", False),
        make_read_only,
        like="set metadata",
    ),
    Case(
        "protect a branch with uncommitted changes",
        lambda lake, _: lake.repository(NAME).protect(["spare"]),
        lambda model: setattr(model[NAME], "protected", ("spare",)),
    ),
    Case(
        "make read-only",
        lambda lake, _: lake.repository(NAME).set_read_only(True),
        lambda model: setattr(model[NAME], "read_only", True),
        stage,
    ),
    Case(
        "delete",
        lambda lake, _: lake.repository(NAME).delete("main", ["a"]),
        lambda model: main_of(model).staged.update(a=None),
    ),
    Case(
        "delete many",
        lambda lake, _: lake.repository(NAME).delete("main", MANY),
        lambda model: main_of(model).staged.update(dict.fromkeys(MANY)),
        stage_many,
        pieces=MANY,
    ),
    Case("reset", lambda lake, _: lake.repository(NAME).reset("main"), lambda m: main_of(m).staged.clear(), stage),
    Case(
        "reset path",
        lambda lake, _: lake.repository(NAME).reset("main", path="a"),
        lambda model: drop(model, "a"),
        stage,
    ),
    Case(
        "reset prefix",
        lambda lake, _: lake.repository(NAME).reset("main", prefix="p/"),
        lambda model: drop(model, "p/x", "p/n"),
        stage,
    ),
    Case(
        "reset after a commit that died",
        lambda lake, _: lake.repository(NAME).reset("main"),
        lambda model: main_of(model).staged.clear(),
        die_committing,
    ),
    Case(
        "reset path after a commit that died",
        lambda lake, _: lake.repository(NAME).reset("main", path="a"),
        lambda model: drop(model, "a"),
        die_committing,
    ),
    Case(
        "reset prefix after a commit that died",
        lambda lake, _: lake.repository(NAME).reset("main", prefix="p/"),
        lambda model: drop(model, "p/x", "p/y", "p/n"),
        die_committing,
        pieces=("p/x", "p/y", "p/n"),
    ),
    Case(
        "commit",
        lambda lake, _: lake.repository(NAME).commit("main", "mine"),
        lambda model: main_of(model).commit("mine"),
        stage,
        again=(NoChangesError,),
    ),
    Case(
        "commit with a request id",
        lambda lake, _: lake.repository(NAME).commit("main", "mine", request_id="r"),
        lambda model: main_of(model).commit("mine"),
        stage,
    ),
    Case(
        "commit in parts",
        lambda lake, _: in_parts(lake, lambda _: CommitAsk(branch="main", message="mine")),
        lambda model: main_of(model).commit("mine"),
        stage,
        lease=HANDOVER,
    ),
    Case(
        "commit after a commit that died",
        lambda lake, _: lake.repository(NAME).commit("main", "mine", request_id="r"),
        lambda model: main_of(model).commit("mine"),
        die_committing,
    ),
    Case(
        "commit that cleans up",
        lambda lake, _: lake.repository(NAME).commit("main", "mine", request_id="r"),
        lambda model: main_of(model).commit("mine"),
        clean_up_is_due,
    ),
    Case(
        "empty commit",
        lambda lake, _: lake.repository(NAME).commit("main", "mine", request_id="r", allow_empty=True),
        lambda model: main_of(model).commit("mine"),
    ),
    Case("commit of a metarange that lies ready", commit_ready, taken_over),
    Case(
        "merge",
        lambda lake, _: lake.repository(NAME).merge("side", "main", message="merge"),
        lambda model: merged(model, "merge"),
        again=(NoChangesError,),
    ),
    Case(
        "merge with a request id",
        lambda lake, _: lake.repository(NAME).merge("side", "main", message="merge", request_id="r"),
        lambda model: merged(model, "merge"),
    ),
    Case(
        "merge over what is staged and changes nothing",
        lambda lake, _: lake.repository(NAME).merge("side", "main", message="merge", request_id="r"),
        lambda model: merged(model, "merge"),
        nothings,
    ),
    Case(
        "merge in parts",
        lambda lake, _: in_parts(
            lake,
            lambda repository: MergeAsk(
                source="side", source_id=repository.commit_of("side").id, destination="main", message="merge"
            ),
        ),
        lambda model: merged(model, "merge"),
    ),
    Case(
        "squash merge",
        lambda lake, _: lake.repository(NAME).merge(
            "side", "main", message="squash", squash=True, strategy=MergeStrategy.SOURCE_WINS, request_id="r"
        ),
        lambda model: merged(model, "squash"),
    ),
    Case(
        "revert",
        lambda lake, _: lake.repository(NAME).revert("main", "main", message="revert", request_id="r"),
        lambda model: main_of(model).commit("revert", {"b": "1"}),
    ),
    Case(
        "cherry-pick",
        lambda lake, _: lake.repository(NAME).cherry_pick("main", "side", message="pick", request_id="r"),
        lambda model: merged(model, "pick"),
    ),
    Case(
        "import",
        import_folder,
        lambda model: main_of(model).commit("import", {"p/i": "3", "p/x": "4", "p/y": None}),
    ),
    Case(
        "import of a listing",
        import_listing,
        lambda model: main_of(model).commit("import", {"p/i": "3", "p/x": "4", "p/y": None}),
        like="import",
    ),
    Case(
        "import of an address",
        import_addresses,
        lambda model: main_of(model).commit("import", {"b": "3"}),
        like="import",
    ),
    Case("hard reset", lambda lake, _: lake.repository(NAME).hard_reset("main", "v1"), moved),
    Case(
        "hard reset over what is staged and changes nothing",
        lambda lake, _: lake.repository(NAME).hard_reset("main", "v1"),
        moved,
        nothings,
    ),
    Case("undo", lambda lake, _: lake.repository(NAME).undo("main"), moved, once=True),
    Case("dump", lambda lake, _: lake.dump(NAME), verify=check_dumps, prepare=die_committing),
    Case(
        "restore",
        lambda lake, _: lake.restore("mem://repo", lake.dumps("mem://repo")[0], NAME),
        restored,
        dump_and_delete,
        again=(AlreadyExistsError,),
    ),
    Case(
        "export",
        lambda lake, scene: lake.repository(NAME).export("main", exported_to(scene), threads=1),
        verify=check_export,
    ),
    Case("fsck with repair", lambda lake, _: lake.fsck(NAME, repair=True), prepare=lose_copies, heals=True),
]


# The experiments


@dataclass
class Start:
    """A lake that is ready for a case, and its model."""

    scene: Scene
    model: Model


def start(case: Case, scene: Scene) -> Start:
    model: Model = {}
    lake = client(scene)
    story(lake, model)
    case.prepare(lake, scene, model)
    return Start(scene, model)


def boundaries(case: Case, begin: Start, folder: Path, *, short: bool = False) -> list[tuple[Kind, ...]]:
    """The kinds of fault of each request that the verb makes undisturbed; and it does what the model says. ``short``: fewer kinds
    where another case has them all."""
    scene = begin.scene.copy(folder)
    model = deepcopy(begin.model)
    count_ = Boundaries()
    case.run(client(scene, seen=count_), scene)
    case.effect(model)
    assert seen(client(scene)) == public(model)
    scene.close()
    reads, others = (SAME_PATH_READ_KINDS, SAME_PATH_KINDS) if short and case.like else (READ_KINDS, KINDS)
    return [reads if method in READS else others for method in count_.seen]


def public(model: Model) -> object:
    """Without what a case has laid by."""
    return shown({name: repository for name, repository in model.items() if name != "was"})


def experiment(case: Case, begin: Start, folder: Path, faults: Sequence[tuple[int, Kind]], way: Way) -> None:
    """Processes one after another run the verb, each with its fault; then a fresh one goes on. ``AssertionError`` if it finds
    what must not be."""
    scene = begin.scene.copy(folder)
    try:
        before = deepcopy(begin.model)
        after = deepcopy(begin.model)
        case.effect(after)
        state = before
        hanging: list[Boundaries] = []
        for ordinal, kind in faults:
            requests = Boundaries()
            schedule = Faults(ordinal, kind, scene.clock)
            acknowledged = _run(case, client(scene, schedule, requests), scene, again=state is not before)
            if kind == "very_late":
                hanging.append(requests)
            else:
                requests.deliver()
            state = _settled(case, scene, state, after, acknowledged=acknowledged and not schedule.dead)
            if case.once and state is not before:
                break
        repeated = way == "repeat" and not (case.once and state is not before)
        if repeated:
            scene.clock.time += CLAIM if case.name == "create repository" else HANGS
            assert _run(case, client(scene), scene, again=True, must=True)
            state = _settled(case, scene, state, after, acknowledged=True)
        case.verify(scene, state, repeated)
        reached = deepcopy(state)
        _go_on(client(scene), scene, reached, "next", case.lease)
        if hanging:
            # What hung may have its effect even now, unless it has had it; never half, and never over what came since.
            for requests in hanging:
                requests.deliver()
            late = deepcopy(after)
            _tell(late, "next", state.keys())
            if seen(client(scene)) == public(late):
                reached = late
            _go_on(client(scene), scene, reached, "last", case.lease)
        assert seen(client(scene)) == public(reached)
        _check_lines(scene)
        if not case.heals or repeated:
            for known in client(scene).repositories().results:
                assert client(scene).fsck(known.name).remaining == ()
    finally:
        scene.close()


def _run(case: Case, lake: Lake, scene: Scene, *, again: bool, must: bool = False) -> bool:
    """Whether the verb was acknowledged. With ``must``, errors are failures, except those that say that it was done before."""
    try:
        case.run(lake, scene)
    except Died:
        return False
    except GravelerError as error:
        if again and isinstance(error, case.again):
            return True
        if must:
            raise AssertionError(f"repeated, it failed: {error!r}") from error
        return False
    return True


def _settled(case: Case, scene: Scene, state: Model, after: Model, *, acknowledged: bool) -> Model:
    """The model of what is there: ``state`` or ``after``, or for verbs that work piece by piece something between."""
    found = seen(client(scene))
    if found == public(after):
        return after
    assert not acknowledged, f"acknowledged, but there is {found}"
    between = deepcopy(state)
    if case.pieces:
        main, target = main_of(between), main_of(after)
        now = _texts(client(scene).repository(NAME), "main")
        for path in case.pieces:
            if now.get(path) == target.current.get(path):
                main.staged[path] = target.current.get(path)
    assert found == public(between), f"{found} is neither as before nor as after"
    return between if case.pieces else state


def _go_on(lake: Lake, scene: Scene, model: Model, message: str, lease: float = LEASE) -> None:
    """Write and commit in each repository, in bounded time; and say so in the model."""
    for name in [known.name for known in lake.repositories().results]:
        repository = lake.repository(name)
        if model[name].read_only:
            repository.set_read_only(False)
            model[name].read_only = False
        if "main" in model[name].protected:
            model[name].protected = repository.unprotect(["main"])
        slept = scene.clock.slept
        repository.upload("main", message, b"7")
        repository.commit("main", message)
        assert scene.clock.slept - slept < lease + 1, "nobody is waited for longer than a lease"
        assert repository._branches.state("main").sealed == ()
    _tell(model, message, model.keys())


def _tell(model: Model, message: str, there: KeysView[str]) -> None:
    for name in there & model.keys() - {"was"}:
        model[name].branches["main"].commit(message, {message: "7"})


def _check_lines(scene: Scene) -> None:
    lake = client(scene)
    for known in lake.repositories().results:
        repository = lake.repository(known.name)
        for branch in repository.branches(show_hidden=True).results:
            rows = repository.reflog(branch.name, 1000)
            assert rows[0].new == branch.commit_id
            # (A restored branch begins anew, over the rows that the table still has.)
            assert all(newer.old in (None, older.new) for newer, older in pairwise(rows)), f"{branch.name}: {rows}"
