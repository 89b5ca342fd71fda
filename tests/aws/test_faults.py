"""Every verb on the AWS adapters, against DynamoDB's own engine and a real S3 server: the same requests as in memory, where
:mod:`tests.lake.test_faults` tries every fault at each of them; and some of those faults here too.

``GRAVELER_FAULTS=n`` tries n / 20 of them for each verb: servers take a second for each.
"""

import os
import random
from collections import Counter
from collections.abc import Container, Iterable
from copy import deepcopy
from pathlib import Path
from random import Random

import pytest

from tests.aws.scene import AwsScene
from tests.aws.wire import WIRE
from tests.lake.faults import (
    CASES,
    KINDS,
    READ_KINDS,
    READS,
    WAYS,
    Case,
    MemoryScene,
    Scene,
    Start,
    client,
    experiment,
    public,
    seen,
    start,
)
from tests.lake.faults.cases.tables import CASES as TABLE_CASES
from tests.support.instruments import Boundaries

FAULTS = int(os.environ.get("GRAVELER_FAULTS", "0")) // 20
WRITERS = (
    "create repository",
    "rename branch",
    "upload",
    "upload if absent",
    "link if absent, over a tombstone",
    "delete many",
    "move",
    "reset path after a commit that died",
    "commit",
    "commit with a request id",
    "commit after a commit that died",
    "merge",
    "merge over what is staged and changes nothing",
    "cherry-pick",
    "undo",
)
"""Verbs that use what adapters can get wrong each in its own way: conditions, transactions, batches."""
OFTEN = ("rename branch", "delete many", "upload if absent", "commit", "merge")
"""Those of them at which `make test` tries a fault."""
NOTHING = Case("nothing", lambda *_: None)


def often(cases: Iterable[Case], names: Container[str]) -> pytest.MarkDecorator:
    """Cases of these names in `make test`, the others in `make test-all`."""
    marked = [pytest.param(case, id=case.name, marks=[] if case.name in names else pytest.mark.ci) for case in cases]
    return pytest.mark.parametrize("case", marked)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """The lake that all verbs begin with."""
    return start(NOTHING, AwsScene(tmp_path_factory.mktemp("story")))


def begun(case: Case, story: Start, folder: Path) -> Start:
    begin = Start(story.scene.copy(folder / "start"), deepcopy(story.model))
    case.prepare(client(begin.scene), begin.scene, begin.model)
    return begin


def undisturbed(case: Case, begin: Start, scene: Scene) -> list[str]:
    """The requests to the ports of an undisturbed run, which does what the model says."""
    model = deepcopy(begin.model)
    requests = Boundaries()
    random.seed(1)  # so that both wait for a lease in the same steps
    case.run(client(scene, seen=requests), scene)
    case.effect(model)
    made = list(requests.seen)
    WIRE.stop()
    assert seen(client(scene)) == public(model)
    return made


@often(CASES, WRITERS)
def test_a_verb_makes_the_requests_that_it_makes_in_memory(case: Case, story: Start, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    in_memory = start(case, MemoryScene(tmp_path / "memory"))
    expected = undisturbed(case, in_memory, in_memory.scene)
    begin = begun(case, story, tmp_path)
    WIRE.begin()
    made = undisturbed(case, begin, begin.scene)
    if case in TABLE_CASES:  # files of tables have random names, on which the ranges depend that a verb writes
        assert set(made) == set(expected)
    elif case.heals:  # in the order of IDs, and these are others
        assert Counter(made) == Counter(expected)
    else:
        assert made == expected
    # The size of an object that was put together is asked for, and of one that is copied.
    assert WIRE.requests == len(made) + made.count("complete_multipart") + made.count("copy")
    assert WIRE.repeated == 0


@often(
    [case for case in CASES if FAULTS or case.name in WRITERS],
    OFTEN,
)
@pytest.mark.parametrize("place", ["the last write", "any write"] if FAULTS else ["the last write"])
def test_after_a_fault_a_verb_has_happened_or_not(case: Case, place: str, story: Start, tmp_path: Path) -> None:
    """At the last writing request, which is the one that all depends on; in `make soak` at any, of readers too."""
    begin = begun(case, story, tmp_path)
    requests = undisturbed(case, begin, begin.scene.copy(tmp_path / "count"))
    random = Random(f"{case.name}, {place}")
    if FAULTS:
        places = random.choices(range(len(requests)), k=FAULTS // 2 + 1)
    else:
        places = [max(at for at, method in enumerate(requests) if method not in READS)]
    for number, at in enumerate(places):
        kind = random.choice(READ_KINDS if requests[at] in READS else KINDS)
        way = random.choice(WAYS)
        try:
            experiment(case, begin, tmp_path / str(number), [(at, kind)], way)
        except AssertionError as error:
            raise AssertionError(f"{case.name}, request {at} of {len(requests)}, {kind}, {way}: {error}") from error
