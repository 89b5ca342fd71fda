"""Functions killed, as Lambda kills them at the end of their time, after every second of their requests to DynamoDB and S3, in
``make soak`` after each: the next function continues, nothing is lost, nothing happens twice.

Started as Lambda starts them: from the built layer, by the runtime's own client; on DynamoDB's own engine and a real S3 server.
"""

from collections.abc import Iterator
from itertools import count
from threading import Lock
from typing import Any

import pytest

from graveler.lake.repository import OpenRepository
from tests.functions.served import NAME, Served, serving
from tests.lake.support import commit, messages, put, texts
from tests.support.campaigns import share
from tests.support.patience import PATIENCE
from tests.support.proxy import Hanging, Trouble

pytestmark = pytest.mark.ci


class Ordinals:
    """Numbers the requests to both servers together, from 0. Behind the request ``last`` a function gets no answers any more."""

    def __init__(self, last: int | None = None) -> None:
        self._lock = Lock()
        self._next, self._last = count(), last
        self.seen: list[str] = []

    def __call__(self, operation: str, _: int) -> Trouble:
        with self._lock:
            self.seen.append(operation)
            ordinal = next(self._next)
            if self._last is None or ordinal < self._last:
                return None
            return Hanging(before=ordinal > self._last)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("killed")) as made:
        yield made


@pytest.fixture(scope="module")
def repository(served: Served) -> OpenRepository:
    """``main`` and ``side`` have each a commit on a common one."""
    opened = served.lake.repository(NAME)
    commit(opened, {"a": "1", "b": "1"}, message="base")
    opened.create_branch("side", "main")
    commit(opened, {"s": "1"}, "side", "side")
    commit(opened, {"a": "2"}, message="more")
    return opened


def kill_behind(last: int, served: Served, verb: str, asked: dict[str, Any]) -> None:
    """Start a function, ask it, and kill it when its request ``last`` has had its effect."""
    ordinals = Ordinals(last)
    served.begin(ordinals)
    with served.function(verb) as function:
        function.send(asked)
        assert served.proxies[0].hanging.wait(PATIENCE), f"there is no request {last}: {ordinals.seen}"
        function.kill()
    for proxy in served.proxies:
        proxy.release()


@pytest.mark.parametrize("verb", ["commit", "merge"])
def test_a_function_that_is_killed_behind_any_request_leaves_nothing_half_done(
    verb: str, served: Served, repository: OpenRepository
) -> None:
    before = {"a": "2", "b": "1"}
    staged = {"c": "3"} if verb == "commit" else {}
    after = before | ({"c": "3"} if verb == "commit" else {"s": "1"})

    def fresh(branch: str) -> str:
        repository.create_branch(branch, "main")
        put(repository, staged, branch)
        return branch

    def asked(branch: str) -> dict[str, Any]:
        path = f"/branches/{branch}/commits" if verb == "commit" else f"/refs/side/merge/{branch}"
        return served.asked("POST", path, body={"message": f"mine on {branch}"}, headers={"idempotency-key": branch})

    ordinals = Ordinals()
    served.begin(ordinals)
    with served.function(verb) as function:
        whole = function.invoke(asked(fresh(f"{verb}-whole")))
    assert whole["statusCode"] in (200, 201), whole
    requests = list(ordinals.seen)
    assert requests.count("TransactWriteItems") == (2 if verb == "commit" else 1), requests
    assert requests.count("PUT") >= 2, requests
    branches = {fresh(f"{verb}-{last}"): last for last in share(range(len(requests)), 2, verb)}
    # First all die, and then others go on: so nobody waits for a lease here.
    for branch, last in branches.items():
        kill_behind(last, served, verb, asked(branch))
        assert texts(repository, f"{branch}@") in (before, after), f"killed behind {requests[: last + 1]}"
        assert texts(repository, branch) in (before | staged, after)
    served.begin(Ordinals())
    with served.function(verb) as function:
        for branch, last in branches.items():
            told = f"killed behind {requests[: last + 1]}"
            answer = function.invoke(asked(branch))
            assert answer["statusCode"] == whole["statusCode"], f"{told}: {answer}"
            assert texts(repository, f"{branch}@") == texts(repository, branch) == after, told
            assert messages(repository, branch) == [f"mine on {branch}", "more", "base", "Repository created"], told
            put(repository, {"d": "4"}, branch)
            assert texts(repository, branch) == after | {"d": "4"}, told
    assert served.lake.fsck(NAME).remaining == ()
