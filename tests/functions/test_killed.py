"""Functions that are killed, as Lambda kills them at the end of their time, behind each of their requests to DynamoDB and S3: the
next function goes on, nothing is lost, nothing happens twice.

Started as Lambda starts them: from the built layer, by the runtime's own client; on DynamoDB's own engine and a real S3 server.
"""

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from secrets import token_hex
from threading import Event, Lock
from typing import Any, Final
from unittest.mock import patch

import msgspec
import pytest
import urllib3

from graveler.lake.aws import open_lake
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.storage.s3_objects import S3Settings
from tests.functions.events import event
from tests.functions.runtime import Started, started, unpacked_layer
from tests.lake.support import commit, messages, put, texts
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.proxy import FaultyProxy, Hanging, Trouble
from tests.support.servers import REGION, dynamodb_local, s3proxy

NAME: Final = "killed"
REPOSITORY: Final = f"/api/v1/repositories/{NAME}"
_SECONDS: Final = 60


class Ordinals:
    """Numbers the requests to both servers together; behind the request ``last`` a function gets no answers any more."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.begin(None)

    def begin(self, last: int | None) -> None:
        """From zero."""
        self._next, self._last = count(), last
        self.seen: list[str] = []

    def __call__(self, operation: str, _: int) -> Trouble:
        with self._lock:
            self.seen.append(operation)
            ordinal = next(self._next)
            if self._last is None or ordinal < self._last:
                return None
            return Hanging(before=ordinal > self._last)


class Place(msgspec.Struct, frozen=True):
    """A lake, functions that work on it through proxies, and what both need."""

    lake: Lake
    layer: Path
    environment: dict[str, str]
    authorization: str
    folder: Path
    proxies: tuple[FaultyProxy, FaultyProxy]
    ordinals: Ordinals

    @contextmanager
    def function(self, verb: str) -> Iterator[Started]:
        """One that has just been started, on a machine where none was before."""
        environment = {**self.environment, "GRAVELER_CACHE": str(self.folder / f"cache-{token_hex(6)}")}
        with started(verb, self.layer, environment, self.folder / f"{verb}.log") as function:
            yield function

    def begin(self, last: int | None) -> None:
        """Count requests from zero; nothing comes back behind ``last``."""
        self.ordinals.begin(last)
        for proxy in self.proxies:
            proxy.begin(self.ordinals)

    def kill_behind(self, last: int, verb: str, asked: dict[str, Any]) -> None:
        """Start a function, ask it, and kill it when its request ``last`` has had its effect."""
        self.begin(last)
        hanging = self.proxies[0].hanging
        with self.function(verb) as function:
            function.send(asked)
            assert hanging.wait(_SECONDS), f"there is no request {last}: {self.ordinals.seen}"
            function.kill()
        for proxy in self.proxies:
            proxy.release()
        self.begin(None)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("killed")
    layer = unpacked_layer(folder / "layer", "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64")
    name = f"killed-{token_hex(6)}"
    hanging = Event()
    with (
        patch.dict("os.environ", CREDENTIALS),
        FaultyProxy(dynamodb_local(), hanging=hanging) as tables,
        FaultyProxy(s3proxy(), hanging=hanging) as objects,
    ):
        settings = S3Settings(REGION, s3proxy())
        make_bucket(name, settings)
        lake = open_lake(
            f"s3://{name}",
            f"dynamodb://{name}",
            s3=settings,
            region=REGION,
            dynamodb_endpoint_url=dynamodb_local(),
            create_table=True,
        )
        lake.create_repository(NAME, f"s3://{name}/{NAME}")
        environment = {
            **CREDENTIALS,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL_DYNAMODB": tables.url,
            "AWS_ENDPOINT_URL_S3": objects.url,
            "GRAVELER_OBJECTS": f"s3://{name}",
            "GRAVELER_TABLES": f"dynamodb://{name}",
        }
        made = Place(lake, layer, environment, "", folder, (tables, objects), Ordinals())
        with made.function("write") as write:
            key = json.loads(write.invoke(event("POST", "/api/v1/setup_lakefs", body={"username": "a"}))["body"])
        basic = f"{key['access_key_id']}:{key['secret_access_key']}"
        yield msgspec.structs.replace(made, authorization=urllib3.make_headers(basic_auth=basic)["authorization"])
        lake.close()


def asked_to_commit(place: Place, branch: str) -> dict[str, Any]:
    return with_key(
        event(
            "POST",
            f"{REPOSITORY}/branches/{branch}/commits",
            body={"message": f"mine on {branch}"},
            authorization=place.authorization,
        ),
        branch,
    )


def asked_to_merge(place: Place, branch: str) -> dict[str, Any]:
    return with_key(
        event(
            "POST",
            f"{REPOSITORY}/refs/side/merge/{branch}",
            body={"message": f"mine on {branch}"},
            authorization=place.authorization,
        ),
        branch,
    )


def with_key(asked: dict[str, Any], key: str) -> dict[str, Any]:
    return {**asked, "headers": {**asked["headers"], "idempotency-key": key}}


@pytest.fixture(scope="module")
def repository(place: Place) -> OpenRepository:
    """``main`` and ``side`` have each a commit on a common one."""
    opened = place.lake.repository(NAME)
    commit(opened, {"a": "1", "b": "1"}, message="base")
    opened.create_branch("side", "main")
    commit(opened, {"s": "1"}, "side", "side")
    commit(opened, {"a": "2"}, message="more")
    return opened


@pytest.mark.parametrize("verb", ["commit", "merge"])
def test_a_function_that_is_killed_behind_any_request_leaves_nothing_half_done(
    verb: str, place: Place, repository: OpenRepository
) -> None:
    asked = asked_to_commit if verb == "commit" else asked_to_merge
    before = {"a": "2", "b": "1"}
    staged = {"c": "3"} if verb == "commit" else {}
    after = before | ({"c": "3"} if verb == "commit" else {"s": "1"})

    def fresh(branch: str) -> str:
        repository.create_branch(branch, "main")
        put(repository, staged, branch)
        return branch

    place.begin(None)
    with place.function(verb) as function:
        whole = function.invoke(asked(place, fresh(f"{verb}-whole")))
    assert whole["statusCode"] in (200, 201), whole
    requests = list(place.ordinals.seen)
    assert requests.count("TransactWriteItems") == (2 if verb == "commit" else 1), requests
    assert requests.count("PUT") >= 2, requests
    branches = {fresh(f"{verb}-{last}"): last for last in range(len(requests))}
    # First all die, and then others go on: so nobody waits for a lease here.
    for branch, last in branches.items():
        place.kill_behind(last, verb, asked(place, branch))
        assert texts(repository, f"{branch}@") in (before, after), f"killed behind {requests[: last + 1]}"
        assert texts(repository, branch) in (before | staged, after)
    with place.function(verb) as function:
        for branch, last in branches.items():
            told = f"killed behind {requests[: last + 1]}"
            answer = function.invoke(asked(place, branch))
            assert answer["statusCode"] == whole["statusCode"], f"{told}: {answer}"
            assert texts(repository, f"{branch}@") == texts(repository, branch) == after, told
            assert messages(repository, branch) == [f"mine on {branch}", "more", "base", "Repository created"], told
            put(repository, {"d": "4"}, branch)
            assert texts(repository, branch) == after | {"d": "4"}, told
    assert place.lake.fsck(NAME).remaining == ()
