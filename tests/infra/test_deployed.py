"""A whole deployment: the stacks by `cdk deploy`, the functions from the built layer, called by the published client."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import lakefs
import pytest
import urllib3
from lakefs.client import Client
from lakefs.exceptions import ConflictException, NotAuthorizedException

from infra.leftovers import main
from infra.settings import SETTING_TAG, TAG
from tests.infra.conftest import DATA_BUCKET, Deployed, first_key
from tests.infra.emulator import emulating
from tests.infra.tools import host_architecture
from tests.recipes.test_deploy_from_github import deploying_step
from tests.support.lakefs_clients import drop_connections
from tests.support.shell import Shell

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


def test_a_deployment_adopts_what_a_removed_one_left(
    names: None,
    emulated_assembly: Path,
    tmp_path: Path,
    shell: Shell,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Deploy, destroy, deploy with the settings that ``infra.leftovers`` writes, by the step of the recipe's workflow, and read
    the commit of before."""
    file = tmp_path / "graveler.json"
    file.write_text(json.dumps({"architecture": host_architecture(), "memory": 1024, "ingest": False}))
    with emulating(tmp_path / "emulator") as emulator:
        shell.export_all(emulator.environment)
        before = emulator.deploy(emulated_assembly, "graveler-api")
        key = first_key(emulator, before)
        client = Client(host=before["Endpoint"], username=key["access_key_id"], password=key["secret_access_key"])
        bucket = before["ObjectsBucket"]
        repo = lakefs.Repository("story", client=client).create(storage_namespace=f"s3://{bucket}/story")
        repo.branch("main").object("a.txt").upload(data=b"of the first deployment", pre_sign=True)
        commit = repo.branch("main").commit(message="first").id
        drop_connections(client)

        refused = emulator.cdk(
            *("deploy", "--all", "-c", f"graveler:deployment={file}", "--output", str(tmp_path / "refused")),
            check=False,
        )
        assert refused.returncode == 1
        assert "memory: 1769 → 1024" in refused.stderr
        assert "data_buckets,ingest,request_records" in refused.stderr.partition("-c graveler:confirm=")[2]

        formation = boto3.client("cloudformation")
        with closing(formation):
            formation.update_termination_protection(EnableTerminationProtection=False, StackName="graveler-stateful")
        emulator.cdk("destroy", "--all", "--force", "--app", str(emulated_assembly))
        _tag_buckets(before)
        assert main(["graveler", "--write"], folder=tmp_path) == 0
        assert capsys.readouterr().err == "first_key: none is left; the deployment will create one\n"
        adopted = json.loads(file.read_text())
        assert (adopted["memory"], adopted["bucket"]) == (1024, bucket)
        adopted["first_key"] = _secret_arn(before["FirstKeySecret"])

        step = deploying_step().replace(
            "--all", "graveler-api"
        )  # alarms have expressions that the emulator does not know
        after = emulator.run_step(step, tmp_path / "second", SETTINGS=json.dumps(adopted), CONFIRM="")
        shared = ("ObjectsBucket", "LandingBucket", "LakeTable", "SealingKeyArn")
        assert {name: after[name] for name in shared} == {name: before[name] for name in shared}
        client = Client(host=after["Endpoint"], username=key["access_key_id"], password=key["secret_access_key"])
        main_branch = lakefs.repository("story", client=client).branch("main")
        assert main_branch.get_commit().id == commit
        assert main_branch.object("a.txt").reader(pre_sign=True).read() == b"of the first deployment"
        main_branch.object("b.txt").upload(data=b"of the second", pre_sign=False)
        assert [c.id for c in main_branch.commit(message="second").log()][1] == commit
        drop_connections(client)


def _tag_buckets(outputs: dict[str, str]) -> None:
    """Do what CloudFormation does with a bucket's tags, and the emulator does not. (Its index of tags has no secrets either.)"""
    s3 = boto3.client("s3")
    with closing(s3):
        for output, setting in (("ObjectsBucket", "bucket"), ("LandingBucket", "landing_bucket")):
            tags: list[Any] = [{"Key": TAG, "Value": "graveler"}, {"Key": SETTING_TAG, "Value": setting}]
            s3.put_bucket_tagging(Bucket=outputs[output], Tagging={"TagSet": tags})


def _secret_arn(name: str) -> str:
    """The ARN of a secret, which a reference to it is in CloudFormation; the emulator's is its name."""
    secrets = boto3.client("secretsmanager")
    with closing(secrets):
        arn: str = secrets.describe_secret(SecretId=name)["ARN"]
    return arn
