"""Rules of a lake, and their copies in its repositories."""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import pytest
from msgspec.structs import replace

from graveler.errors import InvalidError, PreconditionError
from graveler.lake.context import UNLIMITED
from graveler.lake.gates.lake_rules import LAKE_RULES, decode_lake_rules, rules_for
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.lake.settings.change import branch_states
from graveler.model import LakeRule, LakeRules, RequiredStatus, Rule, Rules
from graveler.requests.setting_changes import SetRules
from graveler.storage.tables.port import Item, Key
from tests.lake.support import NAME, Died, World
from tests.support.instruments import Boundaries, CountingTables, Fault, FaultyTables

QUALITY = RequiredStatus("quality", posters=("ci",))
GOLD = LakeRule(name="gold", repositories=("gold-*",), branches=("main",), statuses=(QUALITY,))
EVERYWHERE = LakeRule(name="four eyes", repositories=("*",), branches=("release",), frozen="audit")
OWN = Rule(name="own", branches=("*",), frozen="now")


@pytest.fixture
def lake() -> Lake:
    return World().lake()


def create(lake: Lake, name: str) -> None:
    lake.create_repository(name, f"mem://{name}")


def names(lake: Lake, repository: str) -> list[tuple[str, bool]]:
    return [(rule.name, rule.of_lake) for rule in lake.repository(repository).rules().rules]


def test_repositories_get_copies_when_rules_are_set_and_when_they_are_created(lake: Lake) -> None:
    for name in ("gold-1", "raw"):
        create(lake, name)
    assert lake.rules() == LakeRules()
    assert lake.set_rules([GOLD, EVERYWHERE]) == LakeRules(1, (GOLD, EVERYWHERE)) == lake.rules()
    create(lake, "gold-2")
    create(lake, "raw-2")
    for name in ("gold-1", "gold-2"):
        assert names(lake, name) == [("gold", True), ("four eyes", True)]
    for name in ("raw", "raw-2"):
        assert names(lake, name) == [("four eyes", True)]
    copied = Rule(name="gold", branches=("main",), statuses=(QUALITY,), of_lake=True)
    assert lake.repository("gold-2").rules().rules[0] == copied
    assert lake.repository("gold-2").repository.format_version == 2
    lake.set_rules([])
    assert names(lake, "gold-1") == names(lake, "gold-2") == []


def test_branches_that_the_copies_match_are_stamped(lake: Lake) -> None:
    create(lake, "gold-1")
    lake.set_rules([GOLD])
    create(lake, "gold-2")
    create(lake, "raw")
    stamps = {
        name: lake.repository(name).parts.refs.branch("main").rules  # type: ignore[union-attr]
        for name in ("gold-1", "gold-2", "raw")
    }
    assert stamps == {"gold-1": 1, "gold-2": 1, "raw": 0}


def test_a_repository_keeps_the_rules_of_the_lake_and_its_own(lake: Lake) -> None:
    create(lake, "gold-1")
    repository = lake.repository("gold-1")
    repository.run(SetRules(rules=(OWN,)))
    lake.set_rules([GOLD])
    assert names(lake, "gold-1") == [("gold", True), ("own", False)]
    repository.run(SetRules(rules=()))
    assert names(lake, "gold-1") == [("gold", True)]
    with pytest.raises(InvalidError, match="rule 'gold' is of the lake"):
        repository.run(SetRules(rules=repository.rules().rules), UNLIMITED)
    repository.run(SetRules(rules=(replace(OWN, name="gold"),)))  # a name of its own does not stand in the lake's way
    lake.set_rules([GOLD, EVERYWHERE])
    assert names(lake, "gold-1") == [("gold", True), ("four eyes", True), ("gold", False)]


def test_a_read_only_repository_gets_them_too(lake: Lake) -> None:
    create(lake, "raw")
    lake.repository("raw").set_read_only(True)
    lake.set_rules([EVERYWHERE])
    assert names(lake, "raw") == [("four eyes", True)]


def test_rules_that_contradict_those_of_a_repository_are_refused_before_anything_changes(lake: Lake) -> None:
    for name in ("gold-1", "gold-2"):
        create(lake, name)
    check = RequiredStatus("quality", check={"kind": "no-deletes"})
    lake.repository("gold-2").run(SetRules(rules=(replace(OWN, statuses=(check,)),)))
    with pytest.raises(
        InvalidError, match="with the rules of repository 'gold-2': rule 'own' was refused: status 'quality'"
    ):
        lake.set_rules([GOLD])
    assert lake.rules() == LakeRules()
    assert names(lake, "gold-1") == []


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (replace(GOLD, repositories=()), "0 patterns of repositories"),
        (replace(GOLD, repositories=("Gold",)), "matches no repository"),
        (replace(GOLD, repositories=("",)), "matches no repository"),
        (replace(GOLD, of_lake=True), "which only copies have"),
        (replace(GOLD, branches=()), "guards nothing"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(lake: Lake, rule: LakeRule, reason: str) -> None:
    with pytest.raises(InvalidError, match=reason):
        lake.set_rules([rule])


def test_only_the_version_that_was_read_is_replaced(lake: Lake) -> None:
    lake.set_rules([GOLD], if_match=0)
    assert lake.set_rules([GOLD], if_match=0).version == 1, "a repetition finds its work done"
    with pytest.raises(PreconditionError, match="version 1, and not 0"):
        lake.set_rules([EVERYWHERE], if_match=0)
    assert lake.set_rules([EVERYWHERE], if_match=1).version == 2


class SteppingTables(CountingTables):
    """Tables that call back before the first transaction."""

    before: Callable[[], object] | None = None

    def transact(self, *arguments: object) -> None:
        step, self.before = self.before, None
        if step is not None:
            step()
        super().transact(*arguments)  # type: ignore[arg-type]


def test_a_repository_that_is_created_meanwhile_gets_them_or_is_not_created() -> None:
    world = World()
    tables = SteppingTables(world.tables)
    creator = Lake(tables, world.objects, clock=world.clock)
    tables.before = lambda: world.lake().set_rules([GOLD])
    with pytest.raises(Exception, match="change the rules of the lake"):
        create(creator, "gold-1")
    create(creator, "gold-1")
    assert names(creator, "gold-1") == [("gold", True)]


def test_a_call_that_died_on_the_way_is_finished_by_a_repetition(lake: Lake) -> None:
    create(lake, "gold-1")
    item: Item = {
        "version": 1,
        "rules": '[{"name":"gold","repositories":["gold-*"],"branches":["main"],"frozen":"now"}]',
    }
    lake.tables.put(LAKE_RULES, item)
    rules = decode_lake_rules(item).rules
    assert lake.set_rules(rules).version == 1
    assert names(lake, "gold-1") == [("gold", True)]
    assert Key("lake-rules", b"rules") == LAKE_RULES


def in_force(lake: Lake) -> bool:
    """Return whether every repository has the copies of the lake's rules, and its branch the stamp of their version."""
    newest = lake.rules().rules
    for repository in lake.repositories().results:
        rules = lake.repository(repository.name).rules()
        state = lake.repository(repository.name).parts.branches.state("main")
        if rules.rules != rules_for(newest, repository.name) or (rules.rules and state.rules != rules.version):
            return False
    return True


def setting(world: World, schedule: Callable[[int], None]) -> list[str]:
    """Set rules as a process does that calls ``schedule`` before each request with its number, and is killed if that raises;
    return the methods of its requests."""

    def fault(_: str, number: int) -> Fault:
        schedule(number)
        return None

    boundaries = Boundaries()
    with suppress(Died, PreconditionError):
        Lake(FaultyTables(world.tables, fault, boundaries), world.objects, clock=world.clock).set_rules([GOLD])
    return boundaries.seen


def guarded_lake() -> World:
    world = World()
    for name in ("gold-1", "gold-2"):
        create(world.lake(), name)
    world.lake().set_rules([replace(EVERYWHERE, branches=("main",))])
    return world


def overtake(moments: int, deaths: int) -> None:
    """Let one call be overtaken by another one before every so manieth request, and killed before one of the next ``deaths``
    requests that write, or not at all. ``AssertionError`` if a repository has older rules than the lake."""
    methods = setting(guarded_lake(), lambda _: None)
    changes = [0, *(number for number, (one, two) in enumerate(pairwise(methods), 1) if {one, two} != {"query"})]
    writes = [number for number, method in enumerate(methods) if method in ("put", "transact")]
    latest = (replace(GOLD, frozen="newer"),)
    for overtaken in changes[::moments]:
        for death in [*[number for number in writes if number >= overtaken][:deaths], 1000]:
            world = guarded_lake()

            def schedule(number: int, world: World = world, overtaken: int = overtaken, death: int = death) -> None:
                if number == overtaken:
                    world.lake().set_rules(latest)
                    assert in_force(world.lake())
                if number >= death:
                    raise Died

            setting(world, schedule)
            lake = world.lake()
            rules = lake.rules()
            where = f"overtaken before request {overtaken}, killed before {death}"
            assert in_force(lake) or not (rules.in_force or rules.rules == latest), where
            lake.set_rules(rules.rules)
            assert lake.rules().in_force, where
            assert in_force(lake), where


def test_copies_are_never_older_wherever_a_call_is_overtaken_and_dies() -> None:
    overtake(moments=4, deaths=1)


@pytest.mark.ci
def test_copies_are_never_older_whichever_request_a_call_is_overtaken_and_dies_at() -> None:
    overtake(moments=1, deaths=4)


def test_rules_that_were_not_copied_everywhere_are_not_in_force(lake: Lake) -> None:
    create(lake, "gold-1")
    lake.tables.put(LAKE_RULES, {"version": 1, "rules": '[{"name":"gold","repositories":["*"],"branches":["main"]}]'})
    rules = lake.rules()
    assert not rules.in_force
    lake.set_rules([GOLD], if_match=1)
    assert lake.rules() == LakeRules(2, (GOLD,))


def test_rules_of_a_repository_have_a_version(lake: Lake) -> None:
    create(lake, "raw")
    repository = lake.repository("raw")
    assert repository.rules() == Rules()
    assert repository.run(SetRules(rules=(OWN,), if_match=0)) == Rules(1, (OWN,))
    assert repository.run(SetRules(rules=(OWN,), if_match=0)) == Rules(1, (OWN,))
    with pytest.raises(PreconditionError):
        repository.run(SetRules(rules=(), if_match=0))
    assert repository.run(SetRules(rules=(), if_match=1)) == Rules(2, ())


def test_setting_rules_is_few_requests() -> None:
    world = World()
    world.main.create_branch("dev", "main")
    tables = CountingTables(world.tables)
    lake = Lake(tables, world.objects, clock=world.clock)
    repository = lake.repository(NAME)
    for rules, calls in (
        ((replace(OWN, branches=("main",)),), {"get": 1, "put": 1, "query": 16, "transact": 1}),
        ((OWN,), {"get": 1, "put": 1, "query": 16, "transact": 1}),
        ((OWN,), {"get": 1, "query": 16}),
    ):
        tables.reset()
        repository.run(SetRules(rules=rules))
        assert tables.calls == calls
    tables.reset()
    lake.set_rules([EVERYWHERE])
    assert tables.calls == {"get": 3, "put": 2, "query": 18, "transact": 2}


def test_fifty_branches_are_stamped_by_one_transaction() -> None:
    world = World()
    for number in range(50):
        world.main.create_branch(f"b{number}", "main")
    tables = CountingTables(world.tables)
    repository = Lake(tables, world.objects, clock=world.clock).repository(NAME)
    assert stamped(repository, repository.run(SetRules(rules=(OWN,)))) == 51
    assert tables.calls["transact"] == 2


def test_branches_are_stamped_although_one_changes_meanwhile() -> None:
    world = World()
    world.main.create_branch("dev", "main")
    tables = SteppingTables(world.tables)
    repository = Lake(tables, world.objects, clock=world.clock).repository(NAME)
    tables.before = lambda: world.main.commit("dev", "meanwhile", allow_empty=True)
    rules = repository.run(SetRules(rules=(replace(OWN, observe=True),)))
    assert world.main.commit_of("dev").message == "meanwhile"
    assert stamped(repository, rules) == 2


def stamped(repository: OpenRepository, rules: Rules) -> int:
    """Return the number of branches that have the version of these rules."""
    return sum(state.rules == rules.version for state in branch_states(repository.parts))
