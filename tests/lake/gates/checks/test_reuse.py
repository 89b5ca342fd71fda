"""Verdicts are used again as long as what they read is the same, one process makes a check at a time, and a run can be ended."""

import pytest

from graveler.lake.gates.checks.check_settings import CheckSettings
from graveler.lake.gates.checks.definitions import Reads, Selection
from graveler.lake.gates.checks.inputs import CheckInput
from graveler.lake.gates.checks.outcomes import KEPT, LEASE, CheckOutcomes, Claim
from graveler.lake.gates.checks.verdicts import PASSED, Verdict
from graveler.model import Commit, ObjectEntry
from graveler.tree.key_range import KeyRange
from graveler.tree.record_differences import digest_of, record_differences
from tests.lake.gates.checks.support import ERROR, FAILURE, SUCCESS, Checked, commit_bytes
from tests.lake.support import World

GZIP = b"\x1f\x8b"


class Runs:
    """The number of runs of a check of formats: each reads the objects' bytes."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._client = checked.world.counted()

    def __call__(self) -> int:
        self._client.reset()
        self.status = self._checked.status("formats", patterns=["t/**"], repository=self._client.repository)
        return sum("/data/" in f"/{key}" for _, key in self._client.objects.keys)


def test_a_second_run_of_an_unchanged_part_reads_no_object() -> None:
    checked = Checked().commit({f"t/{n:03}.gz": GZIP for n in range(40)} | {f"a/{n:03}": b"" for n in range(40)})
    runs = Runs(checked)
    base = checked.base
    assert (runs(), runs.status.state) == (40, SUCCESS)
    assert (runs(), runs.status.state) == (0, SUCCESS)
    # The head moved beside these paths, before and after them, so the ranges are cut anew: candidate and base are others.
    checked.commit({f"a/{n:03}": b"" for n in range(100, 130)} | {"u/1": b"", "t": b""})
    checked.base = commit_on(checked.world, base)
    assert runs() == 0
    checked.commit({"t/007.gz": GZIP + b"more"})
    checked.base = base
    assert runs() == 40, "one record changed"


def commit_on(world: World, base: Commit | None) -> Commit:
    """A commit that has what the base has, and other objects beside the paths of the check."""
    assert base is not None
    world.main.create_branch("other", base.id)
    for number in range(20):
        world.main.upload("other", f"b/{number}", b"")
    return world.main.commit("other", "m")


def test_another_address_with_the_same_checksum_runs_again() -> None:
    checked = Checked()
    base, repository = checked.candidate, checked.world.main
    repository.create_branch("forged", "main")
    checked.commit({"t/1.gz": GZIP})
    runs = Runs(checked)
    assert runs() == 1
    entry = repository.stat("main", "t/1.gz")
    key = repository.parts.names.new("forged", entry.path, checked.world.clock.now())
    checked.world.objects().put(key, b"not what its checksum says")
    address = f"{repository.parts.namespace}/{key}"
    repository.link("forged", ObjectEntry(entry.path, address, entry.size, entry.checksum, entry.mtime))
    forged = repository.commit("forged", "m")
    assert forged.metarange_id == checked.candidate.metarange_id, "an ID leaves out addresses"
    trees = repository.parts.trees
    before, after = trees.load(checked.candidate.metarange), trees.load(forged.metarange)
    assert [key for key, _, _ in record_differences(before, after, KeyRange())] == [b"t/1.gz"]
    checked.base, checked.candidate = base, forged
    assert runs() == 1
    assert runs.status.state is FAILURE


def test_errors_are_not_used_again() -> None:
    checked = Checked().commit({"t/1.gz": GZIP})
    runs = Runs(checked)
    objects = checked.world.objects()
    [key] = [stored.key for stored in objects.list("data/")]
    data = objects.get(key)
    objects.delete(key)
    assert (runs(), runs.status.state) == (1, ERROR)
    objects.put(key, data)
    assert (runs(), runs.status.state) == (1, SUCCESS)


def test_verdicts_end_after_thirty_days() -> None:
    checked = Checked().commit({"t/1.gz": GZIP})
    runs = Runs(checked)
    assert [runs(), runs()] == [1, 0]
    checked.world.clock.time += KEPT
    assert runs() == 1


def test_other_definitions_do_not_share_a_verdict() -> None:
    checked = Checked().commit({"t/1": b"12"})
    assert checked.status("limits", most_objects=0).state is FAILURE
    assert checked.status("limits", most_objects=1).state is SUCCESS


class TestClaims:
    DIGEST = b"d" * 32

    def outcomes(self, world: World) -> CheckOutcomes:
        parts = world.repository().parts
        return CheckOutcomes(parts.tables, parts.uid, world.clock, parts.leases)

    def test_another_process_waits_for_the_verdict(self) -> None:
        world = World()
        mine, theirs = self.outcomes(world), self.outcomes(world)
        with mine.claimed(self.DIGEST, lambda: None) as claim:
            assert isinstance(claim, Claim)
            world.clock.on_sleep = lambda: claim.finish(Verdict(FAILURE, "no"))
            with theirs.claimed(self.DIGEST, lambda: None) as verdict:
                assert verdict == Verdict(FAILURE, "no")
        with theirs.claimed(self.DIGEST, lambda: None) as again:
            assert again == verdict

    def test_a_run_whose_process_died_is_taken_over(self) -> None:
        world = World()
        dead = self.outcomes(world).claimed(self.DIGEST, lambda: None)
        dead.__enter__()
        before = world.clock.slept
        with self.outcomes(world).claimed(self.DIGEST, lambda: None) as claim:
            assert isinstance(claim, Claim)
            assert LEASE <= world.clock.slept - before < 2 * LEASE
            claim.finish(PASSED)
        dead.__exit__(None, None, None)
        with self.outcomes(world).claimed(self.DIGEST, lambda: None) as verdict:
            assert verdict == PASSED, "who comes late changes nothing"

    def test_a_claim_without_a_verdict_is_given_back(self) -> None:
        world = World()
        with self.outcomes(world).claimed(self.DIGEST, lambda: None):
            pass
        slept = world.clock.slept
        with self.outcomes(world).claimed(self.DIGEST, lambda: None) as claim:
            assert isinstance(claim, Claim)
        assert world.clock.slept == slept


class EndedError(Exception):
    """The candidate ended."""


def test_a_run_whose_candidate_ended_is_cancelled() -> None:
    checked = Checked().commit({"t/1.gz": GZIP})
    calls = 0

    def stop() -> None:
        nonlocal calls
        calls += 1
        checked.world.clock.time += 2
        if calls == 4:
            raise EndedError

    with pytest.raises(EndedError):
        checked.status("formats", stop=stop)
    assert checked.status("formats").state is SUCCESS, "the claim was given back"


def test_differences_to_the_byte_do_not_depend_on_cuts() -> None:
    world = World()
    first = commit_bytes(world.main, {f"k/{n:03}": b"%d" % n for n in range(60)})
    second = commit_bytes(
        world.main, {f"k/{n:03}a": b"" for n in range(0, 60, 7)} | {"a": b"", "k/010": b"!", "k/059": None}
    )
    trees = world.main.parts.trees
    old, new = trees.load(first.metarange), trees.load(second.metarange)
    for keys in (KeyRange(), KeyRange.of_prefix(b"k/01"), KeyRange(b"k/055", None), KeyRange(b"b", b"k/005a")):
        before, after = (dict(tree.records(keys.start, keys.end)) for tree in (old, new))
        expected = [
            (key, before.get(key), after.get(key))
            for key in sorted(before | after)
            if before.get(key) != after.get(key)
        ]
        assert list(record_differences(old, new, keys)) == expected
        assert list(record_differences(new, old, keys)) == [(key, b, a) for key, a, b in expected]
        assert list(record_differences(new, new, keys)) == []


def test_digests_tell_fields_apart() -> None:
    records: list[list[tuple[bytes, ...]]] = [
        [(b"a", b"bc")],
        [(b"ab", b"c")],
        [(b"a", b"b"), (b"c",)],
        [(b"a", b"b", b"c")],
        [],
    ]
    assert len({digest_of(record) for record in records}) == len(records)


def test_a_digest_reads_what_it_says_and_no_more() -> None:
    world = World()
    commit = commit_bytes(world.main, {f"t/{n:03}.csv": b"" for n in range(50)} | {"u": b""})
    source = CheckInput(world.main.parts, commit, None, CheckSettings(), lambda: None)
    digests = {
        source.digest(reads)
        for reads in (
            Reads(candidate=(Selection("t/"),)),
            Reads(base=(Selection("t/"),)),
            Reads(candidate=(Selection("t/00", "t/00?.csv"),)),
            Reads(changes=("t/",)),
            Reads(commit=("metadata",)),
            Reads(commit=("message",)),
            Reads(trees=True),
        )
    }
    assert len(digests) == 7
