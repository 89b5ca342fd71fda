"""A watch finally takes whatever it could not take at first, and reports each failure once."""

import time
from collections.abc import Callable, Sequence
from hashlib import md5
from itertools import pairwise, permutations
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from graveler.cli.local_ingest import LocalIngest
from graveler.errors import UnavailableError
from graveler.ingest.events import FILES, EventKind, ObjectEvent
from graveler.ingest.folder_watch import FolderWatch
from graveler.ingest.reconcile import Reconciled
from graveler.ingest.results import Batch
from graveler.ingest.rules import PARTITION, CommitPolicy, Overwrites, Rule, RuleStore
from graveler.ingest.watcher import FIRST, LONGEST, Round, Watcher
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.opening.repositories import repository_key
from graveler.storage.tables.port import Key
from tests.lake.support import FakeClock
from tests.support.campaigns import WHOLE

SEEDS = range(200) if WHOLE else (44, 52, 71)  # each of the three has found that a file which went was not missed
STEPS = 40


class Away:
    """A server that answers now and then."""

    def __init__(self, own: LocalIngest) -> None:
        self._own = own
        self.away = False

    def process(self, events: Sequence[ObjectEvent]) -> Batch:
        self._look()
        return self._own.process(events)

    def commit_due(self) -> Batch:
        self._look()
        return self._own.commit_due()

    def reconcile(
        self, repository: str, rule: Rule, *, dry_run: bool, exclude: Sequence[str] = (), ignore: bool = True
    ) -> Reconciled:
        self._look()
        return self._own.reconcile(repository, rule, dry_run=dry_run, exclude=exclude, ignore=ignore)

    def _look(self) -> None:
        if self.away:
            raise UnavailableError("the server is away")


class Place:
    """A folder, a lake with a rule about it, and one watch after another."""

    def __init__(self, folder: Path, rule: Rule | None = None) -> None:
        self.drop = folder / "drop"
        self.drop.mkdir()
        self.clock = FakeClock()
        create_folder_lake(folder / "lake")
        self.lake: Lake = open_folder_lake(folder / "lake")
        self.repository = self.lake.create_repository("quick", "local://quick")
        made = rule or Rule("drop", "", "main", "in/", commit=CommitPolicy(objects=1))
        RuleStore(self.lake.tables).add(self.lake, "quick", replace(made, source=f"file://{self.drop}/"))
        self.ingest = Away(LocalIngest(self.lake))
        self.rules: Callable[[], list[tuple[str, Rule]]] = lambda: [
            (repository, rule) for repository, rules in LocalIngest(self.lake).all_rules() for rule in rules
        ]
        self._ticks = time.time_ns
        self.begin()

    def begin(self) -> None:
        """Watch anew, as after a restart: what two looks find the same counts."""
        folder = FolderWatch(self.drop, self._ticks)
        folder.look()
        self.watcher = Watcher(self.ingest, folder, self.rules, self.clock)

    def rounds(self, number: int = 1, pause: float = 0.0) -> list[Round]:
        told: list[Round] = []
        for _ in range(number):
            told += self.watcher.round()
            self.clock.time += pause
        return told

    def held(self) -> dict[str, str]:
        return {
            f"in/{path.name}": md5(path.read_bytes(), usedforsecurity=False).hexdigest() for path in self.drop.iterdir()
        }

    def branch(self, ref: str = "main@") -> dict[str, str]:
        return {entry.path: entry.checksum for entry in self.repository.objects(ref)}


def failures(rounds: Sequence[Round]) -> list[tuple[str, str]]:
    return [(one.address.rpartition("/")[2], one.outcome) for made in rounds for one in made.failed]


def test_what_landed_while_the_branch_was_protected_is_taken_when_it_no_longer_is(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.rounds()
    place.repository.set_protection(["main"])
    (place.drop / "a").write_text("1")
    assert failures(place.rounds(3)) == [("a", "poison")]
    assert failures(place.rounds(20, 30.0)) == [], "told once"
    assert place.watcher.failing == 1
    place.repository.set_protection([])
    place.rounds(2, LONGEST)
    assert place.branch() == place.held()
    assert place.watcher.failing == 0


def test_pauses_grow_and_have_an_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.rounds()
    place.repository.set_protection(["main"])
    (place.drop / "a").write_text("1")
    tried: list[float] = []
    own = place.ingest.process

    def process(events: Sequence[ObjectEvent]) -> Batch:
        tried.append(place.clock.time)
        return own(events)

    place.ingest.process = process  # type: ignore[method-assign]
    place.rounds(1500, 1.0)
    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses == [FIRST * 2**number for number in range(8)] + [LONGEST] * (len(pauses) - 8)
    assert len(pauses) > 9


def test_what_was_deleted_while_nobody_watched_is_tried_again_too(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.drop / "a").write_text("1")
    place.rounds()
    assert sorted(place.branch()) == ["in/a"]
    (place.drop / "a").unlink()
    place.repository.set_protection(["main"])
    place.begin()
    assert failures(place.rounds(5, 10.0)) == [("", "retry")]
    place.repository.set_protection([])
    place.rounds(2, LONGEST)
    assert place.branch() == {}


def test_a_branch_or_repository_that_is_gone_ends_no_watch(tmp_path: Path) -> None:
    place = Place(tmp_path)
    other = place.lake.create_repository("other", "local://other")
    other.create_branch("b", "main")
    rule = Rule("o", f"file://{place.drop}/", "b", "o/")
    RuleStore(place.lake.tables).add(place.lake, "other", rule)
    other.delete_branch("b")
    (place.drop / "a").write_text("1")
    place.rounds(2)
    assert place.branch() == place.held()
    place.lake.delete_repository("other")
    place.lake.create_repository("other", "local://again").create_branch("b", "main")
    place.begin()
    place.rounds(2, LONGEST)
    again = place.lake.repository("other")
    assert list(again.objects("b")) == [], "the rules of a repository that is gone are not those of its successor"
    assert place.watcher.failing == 0


@pytest.mark.parametrize("key", ["rules", "repository"])
def test_what_is_damaged_elsewhere_is_told_once_and_ends_no_watch(key: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    other = place.lake.create_repository("other", "local://other")
    rule = Rule("o", "s3://elsewhere/", "main", "o/")
    RuleStore(place.lake.tables).add(place.lake, "other", rule)
    at = Key(PARTITION, other.repository.uid.encode()) if key == "rules" else repository_key("other")
    item = place.lake.tables.get(at)
    assert item is not None
    place.lake.tables.put(at, {**item, "rules" if key == "rules" else "metadata": "?"})
    place.begin()
    (place.drop / "a").write_text("1")
    rounds = place.rounds(5, 60.0)
    assert failures(rounds) == []
    told = [one for made in rounds for one in made.commits_failed]
    assert place.branch() == place.held()
    assert place.watcher.failing == len(told), "it is looked at again"
    assert [(one.repository, other.repository.uid in one.reason) for one in told] == (
        [("other", True)] if key == "rules" else []
    ), "nothing of it is pending where its rules are whole"


def test_a_file_that_stays_refused_is_told_once_and_hinders_nobody(tmp_path: Path) -> None:
    rule = Rule("drop", "", "main", "in/", commit=CommitPolicy(objects=1), overwrites=Overwrites.REFUSE)
    place = Place(tmp_path, rule)
    (place.drop / "a").write_text("1")
    place.rounds()
    (place.drop / "a").write_text("22")
    (place.drop / "b").write_text("1")
    told = failures(place.rounds(10, 100.0))
    assert ("a", "poison") in told
    assert set(told) <= {("a", "poison"), ("", "retry")}, "the file, and the source that differs in it"
    assert len(told) == len(set(told))
    assert sorted(place.branch()) == ["in/a", "in/b"]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_meanwhile_the_branch_has_what_the_folder_has_in_the_end(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    place = Place(tmp_path)
    for step in range(STEPS):
        path = place.drop / random.choice("abc")
        match random.randrange(8):
            case 0 | 1:
                path.write_text("x" * step)  # files of one size and one tick of the file system's clock look the same
            case 2:
                path.unlink(missing_ok=True)
            case 3:
                place.repository.set_protection(random.choice([["main"], []]))
            case 4:
                place.ingest.away = random.random() < 0.5
            case 5:
                place.begin()
            case _:
                place.rounds(1, random.choice([0.0, 1.0, 10.0, 1000.0]))
    place.repository.set_protection([])
    place.ingest.away = False
    place.rounds(3, LONGEST)
    assert place.branch() == place.held()
    assert place.watcher.failing == 0


@pytest.mark.parametrize("times", list(permutations(range(4))), ids=str)
def test_a_clock_that_is_set_back_hides_no_change_of_a_file(times: tuple[int, ...], tmp_path: Path) -> None:
    """The sequencers of a file's events are times. Each of its changes reaches the branch, in whatever order these are."""
    place = Place(tmp_path)
    path = place.drop / "a"
    for number, moment in enumerate(times):
        if number == 2:
            path.unlink()
            kind = EventKind.DELETED
        else:
            path.write_text(f"{number}")
            kind = EventKind.CREATED
        told = ObjectEvent(
            FILES, str(path)[1:], kind, f"{moment + 1:016x}".rstrip("0"), 1, "", path.parent.stat().st_mtime
        )
        for _ in range(2):
            assert all(result.outcome.is_done for result in place.ingest.process([told]).results)
            assert place.branch("main") == place.held(), number


@pytest.mark.parametrize("whole", [True, False], ids=["the folder", "what is linked"])
def test_a_folder_that_is_away_for_a_while_ends_no_watch_and_deletes_nothing(tmp_path: Path, *, whole: bool) -> None:
    place = Place(tmp_path)
    (place.drop / "a").write_text("1")
    place.rounds(3)
    held = place.held()
    place.drop.rename(tmp_path / "away")
    if not whole:
        place.drop.symlink_to("drop")  # which leads nowhere
    told = [one for made in place.rounds(20, 30.0) for one in made.failed]
    assert [(one.address, one.outcome) for one in told] == [(f"file://{place.drop}/", "retry")], "told once"
    assert place.watcher.failing == 1
    assert place.branch() == held
    if not whole:
        place.drop.unlink()
    (tmp_path / "away").rename(place.drop)
    (place.drop / "b").write_text("2")
    place.rounds(3, LONGEST)
    assert place.branch() == place.held() != held
    assert place.watcher.failing == 0


def test_reconciling_a_folder_that_is_gone_deletes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.drop / "a").write_text("1")
    place.rounds(3)
    held = place.held()
    ((repository, rule),) = place.rules()
    place.drop.rename(tmp_path / "away")
    for dry_run in (True, False):
        with pytest.raises(UnavailableError, match="is gone; nothing was treated as deleted"):
            place.ingest.reconcile(repository, rule, dry_run=dry_run)
    assert place.branch() == place.branch("main") == held
    place.drop.mkdir()
    assert place.ingest.reconcile(repository, rule, dry_run=False).deleted == ("in/a",)
    place.drop.rmdir()
    assert place.ingest.reconcile(repository, rule, dry_run=False).objects == 0, "nothing is there, nothing was"


def test_a_file_that_reconciling_has_linked_is_no_overwritten_one_when_its_event_comes(tmp_path: Path) -> None:
    rule = Rule("drop", "", "main", "in/", commit=CommitPolicy(objects=1), overwrites=Overwrites.REFUSE)
    place = Place(tmp_path, rule)
    (place.drop / "a").write_text("1")
    place.ingest.reconcile(*place.rules()[0], dry_run=False)
    assert failures(place.rounds(3)) == []
    (place.drop / "a").touch()
    assert failures(place.rounds(3)) == []
    assert place.branch() == place.held()
