"""Random histories of everything that moves objects and commits, with collections in between.

After each collection everything that refs and uncommitted changes name exists. At the end, when the grace is over, nothing
else does. ``GRAVELER_EXAMPLES=n`` for another number of histories.
"""

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import GravelerError, NoChangesError
from graveler.model import RetentionRules
from graveler.retention.rules import DAY
from graveler.retention.runs import Mode
from tests.lake.support import World
from tests.retention.support import AGE, check_live, collect, keys, needed_objects

HISTORIES = int(os.environ.get("GRAVELER_EXAMPLES", "30"))

BRANCHES = ("main", "b1", "b2")
PATHS = ("a", "b", "dir/c")
Step = tuple[str, int, int, int]

VERBS = [
    *(
        "write",
        "delete",
        "commit",
        "commit",
        "merge",
        "branch",
        "drop",
        "rename",
        "tag",
        "untag",
        "copy",
        "copy",
        "move",
    ),
    *("hard_reset", "revert", "pick", "reset", "undo", "rules", "dump"),
    *("collect", "quarantine", "collect", "wait", "wait"),
]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(VERBS),
        st.integers(0, 2),
        st.integers(0, 2),
        st.integers(0, 5),
    ),
    min_size=10,
    max_size=50,
)


class Story:
    """One repository, changed step by step; each step by a fresh client."""

    def __init__(self) -> None:
        self.world = World()
        for name in BRANCHES[1:]:
            self.world.main.create_branch(name, "main")
        self.number = 0

    def step(self, verb: str, one: int, two: int, three: int) -> None:
        """What cannot be done now is left."""
        self.number += 1
        self.world.clock.time += 1
        branch, other, path = BRANCHES[one], BRANCHES[two], PATHS[three % 3]
        repository = self.world.repository()
        match verb:
            case "write":
                repository.upload(branch, path, f"{self.number}".encode())
            case "delete":
                repository.delete(branch, [path])
            case "commit":
                repository.upload(branch, path, f"{self.number}".encode())
                repository.commit(branch, "commit")
            case "merge":
                repository.merge(other, branch)
            case "branch":
                repository.create_branch(branch, other)
            case "drop":
                repository.delete_branch(branch)
            case "rename":
                repository.rename_branch(branch, other)
            case "tag":
                repository.create_tag(f"t{three % 2}", f"{branch}~{three // 2}")
            case "untag":
                repository.delete_tag(f"t{three % 2}")
            case "copy":
                repository.copy(branch, path, PATHS[two], source_ref=other)
            case "move":
                repository.move(branch, path, PATHS[two])
            case "hard_reset":
                repository.hard_reset(branch, f"{other}~{three}")
            case "revert":
                repository.revert(branch, f"{branch}~{three // 2}")
            case "pick":
                repository.cherry_pick(branch, f"{other}~{three // 2}")
            case "reset":
                repository.reset(branch, path=path)
            case "undo":
                repository.undo(branch)
            case "rules":
                repository.set_retention(RetentionRules(three + 1, {branch: 2 * two + 1}))
            case "dump":
                self.world.lake().dump(repository.repository.name)
            case "collect" | "quarantine":
                before = self.visible()
                collect(self.world, Mode.DELETE if verb == "collect" else Mode.QUARANTINE)
                assert self.visible() == before
                check_live(self.world)
            case "wait":
                self.world.clock.time += (three + 1) * AGE / 3

    def visible(self) -> object:
        """What a user sees, names only."""
        fresh = self.world.repository()
        return {
            ref: {entry.path: entry.checksum for entry in fresh.objects(ref)}
            for branch in fresh.branches().results
            for ref in (branch.name, f"{branch.name}@")
        }


@settings(max_examples=HISTORIES, deadline=None, derandomize=True)
@given(STEPS)
def test_nothing_needed_goes_and_nothing_else_stays(steps: list[Step]) -> None:
    story = Story()
    for step in steps:
        try:
            story.step(*step)
        except (GravelerError, NoChangesError):
            continue
    world = story.world
    has_dump = any(key.startswith("_graveler/dumps/") for key in keys(world, "_graveler/"))
    has_rules = world.repository().retention() is not None
    for _ in range(4):
        world.clock.time += 8 * DAY
        collect(world)
    check_live(world)
    if not has_dump:
        garbage = world.lake().fsck(world.main.repository.name).garbage
        left = (garbage.commit_items, garbage.commit_records, garbage.metaranges, garbage.ranges)
        assert left == (0, 0, 0, 0)
        there = keys(world, "data/")
        assert there <= needed_objects(world)
        assert has_rules or there == needed_objects(world)
