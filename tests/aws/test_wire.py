"""Verbs through a faulty network and faulty services: proxies in front of DynamoDB's own engine and a real S3 server.

In the worst case the first try of *every* request of a verb fails; the verb succeeds.
"""

from copy import deepcopy
from pathlib import Path
from typing import Final

import pytest
from msgspec import structs

from graveler.system.retries import Retries
from tests.aws.conftest import Proxies
from tests.aws.scene import AwsScene, Servers, servers
from tests.lake.faults import CASES, Case, Start, attempt, client, go_on, public, seen, settled, start
from tests.lake.support import NAME
from tests.support.proxy import (
    Dropped,
    Hanging,
    Lost,
    Schedule,
    Trouble,
    dynamodb_reply,
    s3_reply,
)

VERBS: Final = ("upload if absent", "commit with a request id", "merge with a request id")
TROUBLES: Final[dict[str, tuple[Trouble, Trouble]]] = {
    "throttled": (dynamodb_reply("ProvisionedThroughputExceededException"), s3_reply("SlowDown", 503)),
    "fails inside": (dynamodb_reply("InternalServerError", 500), s3_reply("InternalError", 500)),
    "cut off before": (Dropped(), Dropped()),
    "too slow": (Hanging(before=True), Hanging(before=True)),
    "answer lost": (Lost(), Lost()),
    "answer cut off": (Lost(half=True), Lost(half=True)),
    "answer too slow": (Hanging(), Hanging()),
}
"""What DynamoDB and what S3 does."""
OFTEN: Final = {
    "upload if absent": ("throttled",),
    "commit with a request id": ("answer too slow", "answer lost"),
    "merge with a request id": ("answer cut off",),
}
"""In `make test`; the rest runs in `make test-all`."""


@pytest.fixture(scope="module")
def troubled(proxies: Proxies) -> Servers:
    """The same servers, asked through the proxies by a client that has little patience."""
    tables, objects = proxies
    return structs.replace(
        servers(), dynamodb_url=tables.url, s3_url=objects.url, timeout=0.5, retries=Retries(8, 0.005, 0.02)
    )


@pytest.fixture(scope="module")
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, Start]:
    (case,) = [case for case in CASES if case.name == request.param]
    return case, start(case, AwsScene(tmp_path_factory.mktemp("start")))


def every_other(trouble: Trouble) -> Schedule:
    """The first try of each request, if requests come one after the other."""
    return lambda _, number: trouble if number % 2 == 0 else None


@pytest.mark.parametrize(
    ("begun", "name"),
    [
        pytest.param(verb, name, marks=[] if name in OFTEN[verb] else pytest.mark.ci)
        for verb in VERBS
        for name in TROUBLES
        if "slow" not in name or verb.startswith("commit")
    ],
    indirect=["begun"],
)
def test_a_verb_whose_every_request_is_troubled_once(
    begun: tuple[Case, Start],
    name: str,
    proxies: Proxies,
    troubled: Servers,
    tmp_path: Path,
) -> None:
    case, begin = begun
    assert isinstance(begin.scene, AwsScene)
    scene = begin.scene.copy(tmp_path)
    for proxy, trouble in zip(proxies, TROUBLES[name], strict=True):
        proxy.begin(every_other(trouble))
    after = deepcopy(begin.model)
    case.effect(after)
    assert attempt(case, client(scene.through(troubled)), scene, again=False, must=True)
    assert all(proxy.seen for proxy in proxies)
    for proxy in proxies:
        proxy.release()
    state = settled(case, scene, begin.model, after, acknowledged=True)
    assert attempt(case, client(scene), scene, again=True, must=True)
    reached = deepcopy(settled(case, scene, state, after, acknowledged=True))
    go_on(client(scene), scene, reached, "next")
    assert seen(client(scene)) == public(reached)
    assert client(scene).fsck(NAME).remaining == ()
