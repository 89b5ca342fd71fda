"""The whole, deployed: the stacks by `cdk deploy`, the functions from the built layer, called by the field's own client."""

import json
import platform
import socket
from collections.abc import Iterator
from typing import Any

import lakefs
import pytest
import urllib3
from lakefs.client import Client
from lakefs.exceptions import ConflictException, NotAuthorizedException

from tests.infra.emulator import Emulator, emulating
from tests.infra.tools import require_tools, synthesise


class Deployed:
    """The address of a deployed API, its bucket, and an admin's key."""

    def __init__(self, emulator: Emulator, url: str, bucket: str, key_id: str, secret: str) -> None:
        self.emulator = emulator
        self.url = url
        self.bucket = bucket
        self.key_id = key_id
        self.secret = secret


@pytest.fixture(scope="module", autouse=True)
def names() -> Iterator[None]:
    """Names that end in ``.localhost`` are this machine (RFC 6761), though not each one's resolver knows."""
    with pytest.MonkeyPatch.context() as patch:
        ask = socket.getaddrinfo

        def resolve(host: Any, *arguments: Any, **more: Any) -> Any:
            local = isinstance(host, str) and host.endswith(".localhost")
            return ask("127.0.0.1" if local else host, *arguments, **more)

        patch.setattr(socket, "getaddrinfo", resolve)
        yield


@pytest.fixture(scope="module")
def deployed(names: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """A deployment for all tests here. A budget is what the emulator does not know."""
    require_tools()
    assembly = tmp_path_factory.mktemp("deployed") / "assembly"
    machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    done = synthesise(assembly, architecture=machine, monthly_budget=0, alarm_email="on-call@example.org")
    assert done.returncode == 0, done.stdout + done.stderr
    with emulating(tmp_path_factory.mktemp("emulator")) as emulator:
        url = emulator.deploy(assembly)
        with urllib3.PoolManager(timeout=60) as http:
            answer = http.request("POST", f"{url}/api/v1/setup_lakefs", body=json.dumps({"username": "admin"}))
        assert answer.status == 200, answer.data
        key = answer.json()
        outputs = json.loads((assembly.parent / "outputs.json").read_text())
        bucket = outputs["graveler-stateful"]["ObjectsBucket"]
        yield Deployed(emulator, url, bucket, key["access_key_id"], key["secret_access_key"])


@pytest.fixture
def client(deployed: Deployed) -> Iterator[Client]:
    made = Client(host=deployed.url, username=deployed.key_id, password=deployed.secret)
    yield made
    made.sdk_client._api.rest_client.pool_manager.clear()


def test_the_story_of_a_lake(deployed: Deployed, client: Client) -> None:
    repo = lakefs.Repository("story", client=client).create(storage_namespace=f"s3://{deployed.bucket}/story")
    main = repo.branch("main")
    main.object("raw/a name, with everything?.txt").upload(data=b"through the function")
    main.object("raw/b.txt").upload(data=b"by a presigned URL", pre_sign=True)
    first = main.commit(message="first")

    dev = repo.branch("dev").create(source_reference="main")
    dev.object("raw/b.txt").upload(data=b"changed", pre_sign=True)
    dev.commit(message="second")
    assert [(change.type, change.path) for change in main.diff(other_ref=dev)] == [("changed", "raw/b.txt")]
    merged = dev.merge_into(main)

    late = repo.branch("late").create(source_reference=first.id)
    late.object("raw/b.txt").upload(data=b"changed otherwise", pre_sign=True)
    late.commit(message="third")
    with pytest.raises(ConflictException):
        late.merge_into(main)

    log = [commit.id for commit in main.log()]
    assert log[0] == merged
    assert first.id in log
    assert [entry.path for entry in main.objects(prefix="raw/")] == ["raw/a name, with everything?.txt", "raw/b.txt"]
    assert main.object("raw/b.txt").reader(pre_sign=True).read() == b"changed"
    assert main.object("raw/a name, with everything?.txt").reader(pre_sign=False).read() == b"through the function"
    assert repo.ref(first.id).object("raw/b.txt").reader(pre_sign=True).read() == b"by a presigned URL"


def test_the_deployments_own_bucket_is_no_source_of_imports(deployed: Deployed, client: Client) -> None:
    repo = lakefs.Repository("imports", client=client).create(storage_namespace=f"s3://{deployed.bucket}/imports")
    with pytest.raises(lakefs.exceptions.ForbiddenException):
        # Objects of the deployment's own bucket may be another repository's.
        repo.branch("main").import_data().prefix(f"s3://{deployed.bucket}/story/", destination="in/").start()


def test_wrong_keys_and_unknown_paths_are_answered_as_clients_know_it(deployed: Deployed) -> None:
    with pytest.raises(NotAuthorizedException):
        list(lakefs.repositories(client=Client(host=deployed.url, username="AKIA", password="wrong")))
    with urllib3.PoolManager(timeout=60) as http:
        for method, path, status in (
            ("GET", "/api/v1/nothing", 404),
            ("GET", "/api/v1/auth/groups", 401),
            ("PATCH", "/api/v1/repositories", 405),
            ("GET", "/api/v1/healthcheck", 204),
        ):
            assert http.request(method, deployed.url + path).status == status, path
        basic = urllib3.make_headers(basic_auth=f"{deployed.key_id}:{deployed.secret}")
        assert http.request("GET", f"{deployed.url}/api/v1/auth/groups", headers=basic).status == 501
