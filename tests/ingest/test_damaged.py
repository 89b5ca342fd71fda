"""A damaged item is reported by name, and stops nothing else; after its repair, nothing is lost."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from graveler.ingest import rules, waiting_repositories
from graveler.ingest.events import ObjectEvent
from graveler.ingest.ledger import Ledger
from graveler.ingest.pending_changes import pending_key
from graveler.ingest.results import Batch, Outcome
from graveler.ingest.rules import CommitPolicy, Rule, RuleStore
from graveler.lake.opening.repositories import repository_key
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Item, Key, Value
from tests.ingest.support import BUCKET, RULE, Shore
from tests.lake.support import NAME, changes

NAMES: Final = ("aaa", NAME, "zzz")
DAMAGED: Final = NAME
POLICY: Final = CommitPolicy(seconds=60)


@dataclass
class Coast:
    """Three repositories with two rules each; what lands below ``in/<repository>/<rule>/`` is for one of them."""

    shore: Shore = field(default_factory=Shore)
    rules: dict[tuple[str, str], Rule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        store = RuleStore(self.shore.tables)
        for name in NAMES:
            if name != NAME:
                self._create(name)
            for rule in ("one", "two"):
                wanted = replace(
                    RULE, name=rule, source=f"{BUCKET}/in/{name}/{rule}/", destination=f"{rule}/", commit=POLICY
                )
                self.rules[name, rule] = store.add(self.shore.lake(), name, wanted)

    def _create(self, name: str) -> None:
        """A repository that is listed behind the damaged one, whose items are read by uid: reading has to go on past that."""
        lake = self.shore.lake()
        for attempt in count():
            if lake.create_repository(name, f"mem://{name}-{attempt}").repository.uid > self.uid():
                return
            lake.delete_repository(name)

    def uid(self, name: str = DAMAGED) -> str:
        return self.shore.lake().repository(name).repository.uid

    def land(self, number: int) -> dict[tuple[str, str], ObjectEvent]:
        return {at: self.shore.bucket.put(f"in/{at[0]}/{at[1]}/{number}") for at in self.rules}

    def process(self, events: dict[tuple[str, str], ObjectEvent]) -> tuple[dict[tuple[str, str], Outcome], Batch]:
        batch = self.shore.ingester().process(list(events.values()))
        return dict(zip(events, (result.outcome for result in batch.results), strict=True)), batch

    def later(self) -> Batch:
        self.shore.clock.time += 60
        return self.shore.ingester().commit_due()

    def staged(self, name: str, ref: str = "main") -> set[str]:
        return {entry.path for entry in self.shore.lake().repository(name).objects(ref)}

    def held(self, name: str) -> set[str]:
        return {
            path.removeprefix(f"in/{name}/") for path in self.shore.bucket.held("in/", "in/") if f"/{name}/" in path
        }


Damage = Callable[[Coast], tuple[Key, Item | bytes]]
"""Which item is damaged, and how: another item under its key, or bytes that are none."""


def rules_key(coast: Coast) -> Key:
    return Key(rules.PARTITION, coast.uid().encode())


def changed(coast: Coast, key: Key, **values: Value | None) -> Item:
    item = {**(coast.shore.tables.get(key) or {}), **values}
    return {name: value for name, value in item.items() if value is not None}


def one_rule(spoil: Callable[[dict[str, object]], object]) -> Damage:
    """The first of two rules cannot be read."""

    def damage(coast: Coast) -> tuple[Key, Item]:
        key = rules_key(coast)
        packed = (coast.shore.tables.get(key) or {})["rules"]
        assert isinstance(packed, bytes)
        decoded = msgspec.msgpack.decode(packed)
        decoded[0] = spoil(decoded[0])
        return key, changed(coast, key, rules=msgspec.msgpack.encode(decoded))

    return damage


ALL_RULES: Final[dict[str, Damage]] = {
    "rules: no msgpack": lambda coast: (rules_key(coast), changed(coast, rules_key(coast), rules=b"?")),
    "rules: cut off": lambda coast: (
        rules_key(coast),
        changed(coast, rules_key(coast), rules=bytes((coast.shore.tables.get(rules_key(coast)) or {})["rules"][:-9])),  # type: ignore[index,arg-type]
    ),
    "rules: no bytes": lambda coast: (rules_key(coast), changed(coast, rules_key(coast), rules="text")),
    "rules: none": lambda coast: (rules_key(coast), changed(coast, rules_key(coast), rules=None)),
    "rules: no version": lambda coast: (rules_key(coast), changed(coast, rules_key(coast), version="x")),
    "rules: no repository": lambda coast: (rules_key(coast), changed(coast, rules_key(coast), repository=None)),
}
NO_SOURCES: Final[dict[str, Damage]] = {
    "rules: written by a version of before, and damaged": lambda coast: (
        rules_key(coast),
        changed(coast, rules_key(coast), rules=b"?", sources=None),
    ),
    "rules: no item": lambda coast: (rules_key(coast), b"\xc1"),
}
ONE_RULE: Final[dict[str, Damage]] = {
    "one rule: of a newer version": one_rule(lambda rule: {**rule, "deletes": "maybe"}),
    "one rule: no source": one_rule(lambda rule: {**rule, "source": 7}),
    "one rule: no map": one_rule(lambda _: "rule"),
}
REPOSITORY: Final[dict[str, Damage]] = {
    "repository: no uid": lambda coast: (
        repository_key(DAMAGED),
        changed(coast, repository_key(DAMAGED), uid=None),
    ),
    "repository: settings": lambda coast: (
        repository_key(DAMAGED),
        changed(coast, repository_key(DAMAGED), metadata="?"),
    ),
    "repository: no item": lambda _: (repository_key(DAMAGED), b"\xc1"),
}


def state_key(coast: Coast) -> Key:
    rule = coast.rules[DAMAGED, "one"]
    return pending_key(coast.shore.lake().repository(DAMAGED).repository.uid, rule.id)


STATE: Final[dict[str, Damage]] = {
    "state: no msgpack": lambda coast: (state_key(coast), changed(coast, state_key(coast), pending=b"?", version=1)),
    "state: no bytes": lambda coast: (state_key(coast), changed(coast, state_key(coast), pending=5, version=1)),
    "state: no item": lambda coast: (state_key(coast), b"\xc1"),
}
EVERY: Final = {**ALL_RULES, **NO_SOURCES, **ONE_RULE, **REPOSITORY, **STATE}


def spoil(coast: Coast, damage: Damage) -> Callable[[], None]:
    """Damage; how to mend it."""
    key, item = damage(coast)
    tables = coast.shore.tables
    assert isinstance(tables, MemoryTables)
    whole = tables.get(key)
    if isinstance(item, bytes):
        _, bodies = tables.partitions.setdefault(key.partition, ([], {}))
        if key.sort not in bodies:
            tables.put(key, {"pending": b""})
        tables.partitions[key.partition][1][key.sort] = item
    else:
        tables.put(key, item)

    def mend() -> None:
        tables.delete(key) if whole is None else tables.put(key, whole)

    return mend


def expected(name: str, at: tuple[str, str]) -> set[Outcome]:
    """What may become of the event of a rule."""
    if name in NO_SOURCES:
        return {Outcome.RETRY}  # nobody can tell whose it is
    if name in ("one rule: no source", "one rule: no map"):
        return {Outcome.RETRY} if at[0] == DAMAGED else {Outcome.STAGED}
    if at[0] != DAMAGED or (at[1] == "two" and (name in ONE_RULE or name in STATE)):
        return {Outcome.STAGED}
    return {Outcome.RETRY}


@pytest.mark.parametrize("name", EVERY)
def test_the_others_go_on_it_is_named_and_nothing_is_lost(name: str) -> None:
    coast = Coast()
    uid = coast.uid()
    coast.process(coast.land(0))
    mend = spoil(coast, EVERY[name])
    events = coast.land(1)
    told, batch = coast.process(events)
    for at, outcome in told.items():
        assert outcome in expected(name, at), at
    clock = coast.later()
    for other in ("aaa", "zzz"):
        assert coast.staged(other, "main@") == coast.held(other), "the clock commits all of the others"
    named = {(one.repository, one.rule) for one in clock.unread}
    named |= {(one.repository, one.rule) for one in clock.commits_failed}
    assert len(named) == 1, (clock.unread, clock.commits_failed)
    assert next(iter(named))[0] in (DAMAGED, uid)
    if name not in STATE:
        assert batch.unread, "and so is it by the batch"
    mend()
    again, batch = coast.process(events)
    assert not batch.unread
    assert set(again.values()) <= {Outcome.STAGED, Outcome.STALE}
    assert coast.later().unread == ()
    for one in NAMES:
        assert coast.staged(one, "main@") == coast.held(one)
        assert changes(coast.shore.lake().repository(one)) == {}


@pytest.mark.parametrize("whole", [False, True], ids=["fields", "item"])
def test_a_damaged_last_event_stops_its_own_object(whole: bool) -> None:
    coast = Coast()
    coast.process(coast.land(0))
    rule = coast.rules[DAMAGED, "one"]
    key = Ledger(coast.shore.lake().repository(DAMAGED).repository.uid, rule.id).key(f"in/{DAMAGED}/one/0")
    mend = spoil(coast, lambda _: (key, b"\xc1" if whole else {"sequencer": 5}))
    events = {(number, "one"): coast.shore.bucket.put(f"in/{DAMAGED}/one/{number}", "2") for number in "012"}
    told, _ = coast.process(events)
    assert [told[number, "one"] for number in "012"] == [Outcome.RETRY, Outcome.STAGED, Outcome.STAGED]
    mend()
    assert coast.process(events)[0]["0", "one"] is Outcome.STAGED


@pytest.mark.parametrize("key", [waiting_repositories._ALL, None], ids=["all", "repository"])
@pytest.mark.parametrize("item", [b"\xc1", {"at": "x", "mark": 5}, {}], ids=["no item", "fields", "empty"])
def test_a_damaged_mark_stops_nothing(key: Key | None, item: Item | bytes) -> None:
    coast = Coast()
    coast.later()
    coast.process(coast.land(0))
    spoil(coast, lambda _: (key or Key(waiting_repositories.PARTITION, coast.uid().encode()), item))
    assert len(coast.later().commits) == 6 - 3, "the second rule's changes go with the first one's"
    assert all(coast.staged(name, "main@") == coast.held(name) for name in NAMES)
    coast.process(coast.land(1))
    assert len(coast.later().commits) == 3


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("at_work", [False, True])
def test_the_advice_for_a_damaged_state_can_be_followed(before: int, at_work: bool) -> None:
    """``before``: how many commits there were, of which none is told again."""
    coast = Coast()
    shore, rule = coast.shore, coast.rules[DAMAGED, "one"]
    repository = shore.lake().repository(DAMAGED)
    for number in range(before):
        coast.process({(DAMAGED, "one"): shore.bucket.put(f"in/{DAMAGED}/one/{number}")})
        assert len(coast.later().commits) == 1
    event = shore.bucket.put(f"in/{DAMAGED}/one/x")
    coast.process({(DAMAGED, "one"): event})
    if at_work:
        repository.protect(["main"])
        assert len(coast.later().commits_failed) == 1  # taken aside, and not made
        repository.unprotect(["main"])
    spoil(coast, STATE["state: no msgpack"])
    (failed,) = coast.later().commits_failed
    said = re.search(r"\(partition (\S+), sort key (\S+)\), and commit the rule's branch", failed.reason)
    assert said is not None, failed.reason
    shore.tables.delete(Key(said[1], said[2].encode()))
    repository.commit("main", "by hand")
    assert changes(repository) == {}
    known = {commit.id for commit in repository.log("main", amount=100).results}
    for number in range(3):
        coast.process({(DAMAGED, "one"): shore.bucket.put(f"in/{DAMAGED}/one/after {number}")})
        (made,) = coast.later().commits
        assert made.rule == rule.name
        assert made.commit.id not in known, "it is told as made, and is an older one"
        known.add(made.commit.id)
        assert changes(repository) == {}
    assert coast.staged(DAMAGED, "main@") == coast.held(DAMAGED)
