"""A whole deployment: the stacks by `cdk deploy`, the functions from the built layer, called by the published client."""

from contextlib import closing

import boto3
import lakefs
import pytest
import urllib3
from lakefs.client import Client
from lakefs.exceptions import ConflictException, NotAuthorizedException

from tests.infra.conftest import DATA_BUCKET, Deployed, first_key

pytestmark = pytest.mark.ci


def test_the_story_of_a_lake(deployed: Deployed, client: Client) -> None:
    repo = lakefs.Repository("story", client=client).create(storage_namespace=f"s3://{deployed.bucket}/story")
    main = repo.branch("main")
    main.object("raw/a name, with everything?.txt").upload(data=b"through the function")
    main.object("raw/b.txt").upload(data=b"with a presigned URL", pre_sign=True)
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
    assert repo.ref(first.id).object("raw/b.txt").reader(pre_sign=True).read() == b"with a presigned URL"


def test_the_first_key_is_in_its_secret_and_nobody_makes_another(deployed: Deployed, client: Client) -> None:
    kept = first_key(deployed.emulator, deployed.outputs)
    assert (kept["access_key_id"], kept["role"]) == (deployed.key_id, "admin")
    with urllib3.PoolManager(timeout=60) as http:
        for path in ("setup_lakefs", "setup_comm_prefs"):
            refused = http.request("POST", f"{deployed.url}/api/v1/{path}", body=b'{"username": "eve"}')
            assert refused.status == 403
        state = http.request("GET", f"{deployed.url}/api/v1/setup_lakefs").json()
    assert state["state"] == "initialized"


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


def test_what_else_a_lake_is_asked(deployed: Deployed, client: Client) -> None:
    repo = lakefs.Repository("more", client=client).create(storage_namespace=f"s3://{deployed.bucket}/more")
    main = repo.branch("main")
    for path in ("a/1", "a/2", "b/1", "c"):
        main.object(path).upload(data=path.encode(), pre_sign=True)
    base = main.commit(message="base").get_commit()
    tag = repo.tag("v1").create("main")
    assert tag.get_commit().id == base.id

    listed = list(main.objects(delimiter="/"))
    assert [entry.path for entry in listed] == ["a/", "b/", "c"]
    assert [type(entry).__name__ for entry in listed] == ["CommonPrefix", "CommonPrefix", "ObjectInfo"]
    assert [entry.path for entry in main.objects(prefix="a/", delimiter="/")] == ["a/1", "a/2"]

    side = repo.branch("side").create("main")
    side.object("a/2").upload(data=b"of the side", pre_sign=True)
    side.commit(message="on the side")
    main.cherry_pick(reference=side)
    assert main.object("a/2").reader(pre_sign=True).read() == b"of the side"
    main.revert(main.head)
    assert main.object("a/2").reader(pre_sign=True).read() == b"a/2"
    assert [change.path for change in repo.ref("v1").diff(other_ref=main)] == []
    assert tag.object("a/2").reader(pre_sign=True).read() == b"a/2"

    side.object("c").delete()
    assert [(change.type, change.path) for change in side.uncommitted()] == [("removed", "c")]
    side.reset_changes()
    assert list(side.uncommitted()) == []


def test_objects_of_another_bucket_are_imported(deployed: Deployed, client: Client) -> None:
    """The work goes to the state machine; nothing is copied."""
    s3 = boto3.client(
        "s3",
        endpoint_url=deployed.emulator.url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    with closing(s3):
        s3.create_bucket(Bucket=DATA_BUCKET)
        for number in range(5):
            s3.put_object(Bucket=DATA_BUCKET, Key=f"tables/{number}", Body=f"row {number}".encode())
    repo = lakefs.Repository("taken-over", client=client).create(storage_namespace=f"s3://{deployed.bucket}/taken-over")
    main = repo.branch("main")
    status = main.import_data("tables").prefix(f"s3://{DATA_BUCKET}/tables/", destination="in/").run()
    assert status.completed
    assert status.error is None
    assert [entry.path for entry in main.objects(prefix="in/")] == [f"in/{number}" for number in range(5)]
    assert main.object("in/3").reader(pre_sign=True).read() == b"row 3"
    assert main.object("in/3").stat().physical_address == f"s3://{DATA_BUCKET}/tables/3"
