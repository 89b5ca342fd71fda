"""The whole, deployed: the stacks by `cdk deploy`, the functions from the built layer, called by the field's own client."""

import lakefs
import pytest
import urllib3
from lakefs.client import Client
from lakefs.exceptions import ConflictException, NotAuthorizedException

from tests.infra.conftest import Deployed


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
