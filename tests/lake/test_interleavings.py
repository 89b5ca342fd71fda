"""Random schedules of real clients: no acknowledged write is lost or revived, commits are whole and once, histories linear.

``GRAVELER_SCHEDULES=n`` searches n schedules instead of the short form. A failure names its seed, and ``explore(seed)`` replays
it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from threading import local

import pytest
from msgspec import structs

from graveler.history.reflog import Event
from graveler.history.refs import BranchState, Refs
from graveler.lake.committing import clean_heads, landing, sealing
from graveler.lake.committing.clean_heads import Staging
from graveler.lake.committing.sealing import Sealed
from graveler.lake.deadline import Deadline
from graveler.lake.leases import LeaseWatch
from graveler.lake.objects import reset
from graveler.lake.objects.stage import Accept, Stager
from graveler.lake.objects.withdrawal import Withdrawer
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs import rename
from graveler.lake.refs.branches import Branches
from graveler.lake.settings.repository_settings import Intent
from graveler.lake.turns import Turn
from graveler.model import Token
from graveler.staging import cleanup, tokens
from graveler.staging.changes import Placed, StagedChanges, StagedRecord
from graveler.storage.tables.port import Check, Item, Key, Matches, Put, Value, Write
from graveler.tree.tree import Tree
from tests.lake.interleaving import CASTS, IN_PARTS, explore

SCHEDULES = int(os.environ.get("GRAVELER_SCHEDULES", "480"))
CHUNKS = 12

REGRESSIONS = [(100_026, 8), (103_657, 8)]
"""Seeds that failed once, and how many casts there were to pick from."""


@pytest.fixture
def first_seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("hypothesis_seed", None)
    return (int(given) if given is not None else 20260101) * 1_000_003


@pytest.mark.search
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_schedule_loses_or_revives_a_write(chunk: int, first_seed: int) -> None:
    for number in range(chunk, SCHEDULES, CHUNKS):
        explore(first_seed + number)


@pytest.mark.search
def test_no_schedule_of_commits_and_merges_in_parts_loses_or_revives_a_write(first_seed: int) -> None:
    for number in range(SCHEDULES // CHUNKS):
        explore(first_seed + number, IN_PARTS)


@pytest.mark.search
def test_no_schedule_in_which_sealed_changes_are_staged_again_loses_or_revives_a_write(
    first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where very many commits have died: here one is too many."""
    monkeypatch.setattr("graveler.lake.committing.sealing.MAX_SEALED", 1)
    for number in range(SCHEDULES // CHUNKS):
        explore(first_seed + number)
        explore(first_seed + number, IN_PARTS)


@pytest.mark.parametrize(("seed", "casts"), REGRESSIONS)
def test_schedules_that_failed_once(seed: int, casts: int) -> None:
    explore(seed, CASTS[:casts])


# The search finds what each rule of the protocol is there for: without the rule there is a bad history.


def without_check_after_put(patch: pytest.MonkeyPatch) -> None:
    def stage(
        self: Stager,
        branch: str,
        records: Sequence[StagedRecord],
        until: Deadline,
        *,
        force: bool = False,
        accept: Accept | None = None,
    ) -> None:
        self.expect(branch, force=force)
        self._staged.put_many(self._open[branch], records)

    patch.setattr(Stager, "stage", stage)


def taking_late_items_back(patch: pytest.MonkeyPatch) -> None:
    def stage(
        self: Stager,
        branch: str,
        records: Sequence[StagedRecord],
        until: Deadline,
        *,
        force: bool = False,
        accept: Accept | None = None,
    ) -> None:
        self.expect(branch, force=force)
        while True:
            token = self._open[branch]
            self._staged.put_many(token, records)
            self._open[branch] = self._branches.state(branch).open
            if self._open[branch] == token:
                return
            tables = self._staged._tables
            for key, packed in records:
                (place,) = self._staged.keys([token], key)
                if tables.get(place) == ({} if packed is None else {"record": packed}):
                    tables.delete(place)

    patch.setattr(Stager, "stage", stage)


def deleting_staged_items_instead_of_tombstones(patch: pytest.MonkeyPatch) -> None:
    put = StagedChanges.put_and_look

    def remove(
        self: StagedChanges, token: Token, key: bytes, packed: bytes | None, keys: Sequence[Key]
    ) -> tuple[Placed, list[Item | None]]:
        found = self._tables.get(self._key(token, key))
        if packed is not None or found is None:
            return put(self, token, key, packed, keys)
        self._tables.delete(self._key(token, key))
        return Placed(token, key, packed, b"", found, is_certain=False), self._tables.get_many(keys)

    patch.setattr(StagedChanges, "put_and_look", remove)


def cleaning_up_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cleanup, "LONGEST_REQUEST", -1)


def leaving_staged_nothings_over_a_merge(patch: pytest.MonkeyPatch) -> None:
    look = clean_heads._look

    def careless(repository: RepositoryParts, tokens: tuple[Token, ...], tree: Tree) -> Staging:
        found = look(repository, tokens, tree)
        return Staging.NOTHING if found is Staging.NO_CHANGE else found

    patch.setattr(clean_heads, "_look", careless)


def ignoring_what_is_staged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clean_heads, "_look", lambda *_: Staging.NOTHING)


def merging_over_what_is_staged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(landing, "expect_apart", lambda *_: None)


def publishing_whatever_the_head_is(patch: pytest.MonkeyPatch) -> None:
    move = Refs.move_branch_writes

    def blind(
        self: Refs, old: BranchState, new: BranchState, event: Event | None, *, amid_conditional: bool = False
    ) -> list[Write]:
        first, *rest = move(self, old, new, event)
        assert isinstance(first, Put)
        condition = Matches({"open": old.open})
        return [Put(first.key, first.item, condition), *rest]

    patch.setattr(Refs, "move_branch_writes", blind)


def creating_whatever_the_branch_is(patch: pytest.MonkeyPatch) -> None:
    def unconditional(self: Refs, state: BranchState) -> Check:
        return Check(self.branch_key(state.name), Matches({}))

    patch.setattr(Refs, "conditional_write", unconditional)


def merging_below_what_was_created_or_replaced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Refs, "conditional_write", Refs.unchanged_check)


def resetting_sealed_tokens_with_what_they_hold_of_others(patch: pytest.MonkeyPatch) -> None:
    def careless(
        repository: RepositoryParts, state: BranchState, start: bytes, end: bytes | None, by: str
    ) -> BranchState:
        after = BranchState(state.name, state.commit_id, state.open)
        reset._move(repository, state, after, by)
        return after

    patch.setattr(reset, "_bring_back", careless)


def renaming_a_branch_that_still_acknowledges(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Branches, "_await_rename", lambda _, state, __: state)


def renaming_with_the_tokens_of_the_old_name(patch: pytest.MonkeyPatch) -> None:
    def stage_nothing(*_: object) -> Iterator[int]:
        yield from ()

    def keeping(self: Refs, state: BranchState, event: Event) -> list[Write]:
        return create(self, structs.replace(state, sealed=kept[state.open]) if state.open in kept else state, event)

    def closing(_: RepositoryParts, closed: BranchState) -> BranchState:
        assert closed.renaming is not None
        kept[closed.renaming.into] = (*closed.sealed, closed.open)
        return closed

    create, kept = Refs.create_branch_writes, dict[Token, tuple[Token, ...]]()
    patch.setattr(StagedChanges, "stage_again", stage_nothing)
    patch.setattr(rename, "_stage_again", closing)
    patch.setattr(Refs, "create_branch_writes", keeping)
    patch.setattr(Branches, "drop_token_writes", lambda *_, **__: [])


def refusing_without_taking_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Withdrawer, "withdraw", lambda *_: True)


def judging_leases_by_wall_clocks(patch: pytest.MonkeyPatch) -> None:
    """The beat says until when the lease lasts, by the clock of its owner."""
    owner = local()
    seal, sealed = sealing.seal_in, tokens._sealed

    def noting_the_clock(
        repository: RepositoryParts,
        turn: Turn,
        operation: str,
        request: str = "",
        intent: Intent | None = None,
        *,
        leave: bool = False,
    ) -> Sealed:
        owner.clock = repository.clock
        return seal(repository, turn, operation, request, intent, leave=leave)

    def saying_until_when(operation: str, seconds: float, request: str) -> dict[str, Value]:
        item = sealed(operation, seconds, request)
        return item | {"beat": str(owner.clock.now() + seconds)} if "beat" in item else item

    def remaining(self: LeaseWatch, lease: str, beat: str, seconds: float) -> float:
        return float(beat) - self._clock.now() if lease.startswith("token/") else seconds

    for module in (sealing, clean_heads):
        patch.setattr(module, "seal_in", noting_the_clock)
    patch.setattr(tokens, "_sealed", saying_until_when)
    patch.setattr(LeaseWatch, "remaining", remaining)


MUTATIONS: list[Callable[[pytest.MonkeyPatch], None]] = [
    without_check_after_put,
    taking_late_items_back,
    deleting_staged_items_instead_of_tombstones,
    cleaning_up_at_once,
    leaving_staged_nothings_over_a_merge,
    ignoring_what_is_staged,
    merging_over_what_is_staged,
    publishing_whatever_the_head_is,
    creating_whatever_the_branch_is,
    merging_below_what_was_created_or_replaced,
    resetting_sealed_tokens_with_what_they_hold_of_others,
    renaming_a_branch_that_still_acknowledges,
    renaming_with_the_tokens_of_the_old_name,
    refusing_without_taking_back,
    judging_leases_by_wall_clocks,
]

CLIENTS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    merging_over_what_is_staged: "neighbour",
    merging_below_what_was_created_or_replaced: "replacer",
}
"""The clients that meet what a rule is there for."""


@pytest.mark.ci
def test_the_search_finds_a_bad_history_where_parts_are_published_on_any_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are, wherever the branch has moved."""

    def explore_many() -> None:
        for seed in range(2000, 4000):
            explore(seed, IN_PARTS)

    monkeypatch.setattr("graveler.operations.parts.joined_parts.changed_intervals", lambda _: [])
    with pytest.raises(AssertionError, match=r"^seed"):
        explore_many()


@pytest.mark.ci
@pytest.mark.search
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[m.__name__ for m in MUTATIONS])
def test_the_search_finds_a_bad_history(mutation: Callable[[pytest.MonkeyPatch], None]) -> None:
    of_renames = "renaming" in mutation.__name__ or mutation is refusing_without_taking_back
    client = CLIENTS.get(mutation, "renamer" if of_renames else "")
    casts = [cast for cast in CASTS if not client or client in cast]
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        with pytest.raises(AssertionError, match=r"^seed"):
            explore_many(casts)


def explore_many(casts: Sequence[tuple[str, ...]]) -> None:
    for seed in range(5000):
        explore(seed, casts)
