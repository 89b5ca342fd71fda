"""Law F1 on branches: equal contents under equal split parameters have one ID, whichever verb made them."""

from collections.abc import Iterator, Mapping
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import MergeConflictError, NoChangesError
from graveler.lake.importing.importer import ImportSource
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, CommitID, MergeStrategy, MetarangeName, SplitParameters
from graveler.storage.objects.tree_files import FOLDER
from graveler.storage.tables.memory import MemoryTables
from graveler.tree.canonical import is_canonical
from graveler.tree.sstable import write_table
from graveler.tree.store import METARANGES, TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import build
from tests.api.support import EventClient, make_world
from tests.lake.support import NAME, NAMESPACE, TINY, World, put
from tests.support.campaigns import examples
from tests.support.trees import ALONE, MemoryFiles
from tests.tree.support import LAW

COARSE = SplitParameters(min_size=400, max_size=1_600, raggedness=3)
"""Nearly all of its cuts are cuts that :data:`TINY` might make: only keys inside of ranges tell the two apart."""
WIDE = SplitParameters(min_size=600, max_size=3_000, raggedness=5)
SPLITS = TINY, COARSE, WIDE
BRANCHES = "main", "dev"


def fresh(records: Iterator[tuple[bytes, bytes]], split: SplitParameters) -> str:
    """The ID of the tree that is built from scratch."""
    return build(TreeStore(MemoryFiles(), ALONE), split, records).id()


def expect_canonical(repository: OpenRepository, commit: Commit, split: SplitParameters) -> None:
    tree = repository.parts.trees.load(commit.metarange)
    assert commit.metarange_id == fresh(tree.records(), split)


def ready(world: World, tree: Tree, *, says: bool) -> MetarangeName:
    """The tree's metarange lies there; unless it ``says`` how it is cut, as an earlier version wrote it."""
    if says:
        return tree.save()
    name = tree.name()
    if name:
        data = write_table(tree.lasts, tree.packed, tree.store.scratch)
        world.objects().put(f"{FOLDER}/{METARANGES}/{name}", data)
    return name


def built(repository: OpenRepository, records: Iterator[tuple[bytes, bytes]], split: SplitParameters) -> Tree:
    return build(repository.parts.trees.empty().store, split, records)


@pytest.mark.parametrize("says", [True, False])
def test_what_lay_ready_before_a_rewriting_gets_the_id_of_the_branch_as_it_is_cut_now(says: bool) -> None:
    world = World()
    put(world.main, {f"{number:03}": "1" for number in range(120)})
    before = world.main.commit("main", "base")
    world.main.create_branch("dev", "main")
    world.main.rewrite("main", WIDE)
    put(world.main, {"new": "2"}, "dev")
    other = world.main.commit("dev", "other")
    rewritten = world.main.rewrite("dev", COARSE)
    tree = world.main.parts.trees.load(other.metarange)
    name = ready(world, Tree(tree.store, tree.lasts, tree.packed, tree.cut_by), says=says)
    expect_canonical(world.main, world.repository().commit_metarange("main", name, "taken"), WIDE)
    with pytest.raises(NoChangesError):
        world.repository().commit_metarange("dev", name, "equal contents")
    # The reverse: what was cut for a branch that was rewritten goes to one that was not.
    world.main.create_branch("plain", before.id)
    taken = world.repository().commit_metarange("plain", rewritten.metarange, "taken")
    expect_canonical(world.main, taken, TINY)
    assert taken.metarange_id == other.metarange_id
    assert world.lake().fsck(NAME).findings == ()


def test_ranges_that_end_where_others_may_end_are_looked_into() -> None:
    """By their descriptions the ranges of the coarse tree might be those of the fine one."""
    world = World()
    put(world.main, {f"{number:03}": "1" for number in range(300)})
    world.main.commit("main", "base")
    records = list(world.main.parts.trees.load(world.main.commit_of("main").metarange).records())
    coarse = built(world.main, iter(records), SplitParameters(min_size=400, max_size=100_000, raggedness=3))
    fine = SplitParameters(min_size=100, max_size=100_000, raggedness=3)
    assert not is_canonical(coarse, fine)
    assert is_canonical(built(world.main, iter(records), fine), fine)


def test_what_says_how_it_is_cut_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two reads, of the metarange file and its age; else one for each range that the head does not have and that might be cut."""
    world = World()
    put(world.main, {f"{number:03}": "1" for number in range(200)})
    world.main.commit("main", "base")
    world.main.create_branch("dev", "main")
    put(world.main, {f"{number:03}": "2" for number in range(100)}, "dev")
    tree = world.main.parts.trees.load(world.main.commit("dev", "change").metarange)
    counted = world.counted()
    counted.repository.commit_metarange("main", tree.name(), "taken")
    assert counted.ranges_read() == 0
    world.main.undo("main")
    ready(world, tree, says=False)
    counted = world.counted()
    counted.repository.commit_metarange("main", tree.name(), "taken")
    base = set(world.main.parts.trees.load(world.main.commit_of("main~1").metarange).packed)
    assert 0 < counted.ranges_read() <= sum(packed not in base for packed in tree.packed)


def test_rewriting_mends_a_branch_that_is_cut_otherwise_than_its_commits_say() -> None:
    """As earlier versions left them, which took a ready metarange as they found it."""
    world = World()
    put(world.main, {f"{number:03}": "1" for number in range(200)})
    right = world.main.commit("main", "base")
    records = list(world.main.parts.trees.load(right.metarange).records())
    wrong = built(world.main, iter([*records, (b"zzz", records[0][1])]), COARSE)
    wrong.cut_by = TINY  # it is not
    made = world.main.commit_metarange("main", wrong.save(), "believed")
    assert made.metarange == wrong.name()
    report = world.lake().fsck(NAME)
    assert report.findings
    assert all("branch rewrite" in finding.remedy for finding in report.findings)
    mended = world.main.rewrite("main", TINY)
    expect_canonical(world.main, mended, TINY)
    with pytest.raises(NoChangesError):
        world.main.rewrite("main", TINY)


def test_a_branch_that_was_restored_goes_on_as_it_was_cut() -> None:
    world = World()
    put(world.main, {f"{number:03}": "1" for number in range(120)})
    world.main.commit("main", "base")
    world.main.create_branch("dev", "main")
    world.main.rewrite("main", WIDE)
    put(world.main, {"new": "2"}, "dev")
    name = world.main.commit("dev", "other").metarange
    dumped = world.lake().dump(NAME)
    world.tables = MemoryTables()
    restored = world.lake()
    restored.restore(NAMESPACE, dumped.id, NAME)
    repository = world.repository()
    put(repository, {"new": "1"}, "main")
    expect_canonical(repository, repository.commit("main", "goes on"), WIDE)
    expect_canonical(repository, repository.commit_metarange("main", name, "taken"), WIDE)


def test_over_http_a_ready_metarange_is_cut_as_the_branch_is() -> None:
    world = make_world()
    repository = world.lake.create_repository("repo", "local://repo", split=TINY)
    put(repository, {f"{number:03}": "1" for number in range(60)})
    ready = repository.commit("main", "base").metarange
    repository.rewrite("main", WIDE)
    put(repository, {"new": "1"})
    repository.commit("main", "new")
    made = EventClient(world)(
        "POST", "/repositories/repo/branches/main/commits", [("source_metarange", ready)], {"message": "taken"}
    )
    assert made.status == 201
    expect_canonical(repository, repository.commit_of("main"), WIDE)
    world.application.close()


Step = tuple[str, str, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("change", "change", "rewrite", "ready commit", "ready built", "merge", "import", "pick", "revert", "reset")
        ),
        st.sampled_from(BRANCHES),
        st.integers(0, 2),
        st.integers(0, 1),
        st.integers(0, 1 << 16),
    ),
    min_size=2,
    max_size=9,
)


class Branches:
    """A lake with two branches, and what each is cut by."""

    def __init__(self) -> None:
        self.world = World()
        self.repository = self.world.main
        put(self.repository, {f"{number:03}": "1" for number in range(0, 120, 2)})
        self.commits = [self.repository.commit("main", "base")]
        self.cuts = {CommitID(self.commits[0].id): TINY}
        self.repository.create_branch("dev", "main")
        self.split = dict.fromkeys(BRANCHES, TINY)

    def do(self, step: Step) -> None:
        verb, branch, number, says, seed = step
        random = Random(seed)
        other = BRANCHES[branch == "main"]
        old = self.commits[seed % len(self.commits)]
        parent = int(len(old.parents) > 1)
        split = SPLITS[number]
        repository = self.world.repository() if says else self.repository
        match verb:
            case "change":
                put(
                    repository,
                    {f"{random.randrange(140):03}": f"{random.random()}" for _ in range(1 + seed % 30)},
                    branch,
                )
                made = repository.commit(branch, "change")
            case "rewrite":
                made = repository.rewrite(branch, split)
                self.split[branch] = split
            case "ready commit":
                made = repository.commit_metarange(branch, old.metarange, "taken")
            case "ready built":
                records = list(repository.parts.trees.load(old.metarange).records())
                tree = built(repository, iter(records[seed % 7 :: 1 + seed % 2]), split)
                made = repository.commit_metarange(branch, ready(self.world, tree, says=bool(says)), "built")
            case "merge":
                made = repository.merge(other, branch, strategy=MergeStrategy.SOURCE_WINS)
            case "import":
                listed = sorted(repository.parts.trees.load(old.metarange).records())[: seed % 60]
                moved = [(b"import/" + key, value) for key, value in listed]
                made = repository.import_sources(
                    branch, [ImportSource(b"import/", True, partial(iter, moved))], "import", allow_empty=True
                )
            case "pick":
                made = repository.cherry_pick(branch, old.id, parent_number=parent)
            case "revert":
                made = repository.revert(branch, old.id, parent_number=parent)
            case _:
                self.repository.hard_reset(branch, old.id)
                self.split[branch] = self.cuts[old.id]
                return
        self.commits.append(made)
        self.cuts[made.id] = self.split[branch]
        expect_canonical(self.repository, made, self.split[branch])


@settings(LAW, max_examples=examples(40))
@given(STEPS)
def test_equal_contents_have_one_id_by_whatever_door_they_came(steps: list[Step]) -> None:
    branches = Branches()
    for step in steps:
        try:
            branches.do(step)
        except (NoChangesError, MergeConflictError):
            continue
    by_contents: dict[tuple[SplitParameters, Mapping[bytes, bytes] | str], str] = {}
    for commit in branches.commits:
        records = branches.repository.parts.trees.load(commit.metarange).records()
        split = branches.cuts[commit.id]
        assert by_contents.setdefault((split, fresh(records, TINY)), commit.metarange_id) == commit.metarange_id
    assert branches.world.lake().fsck(NAME).findings == ()
