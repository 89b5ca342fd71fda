"""Settings are compared with those of the deployed stacks, as CloudFormation has them; nothing is taken back by an omission."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.session import get_session
from botocore.stub import Stubber

from infra.check_settings import Checks
from infra.deployed import METADATA, DeployedStacks, check_settings, left_out
from infra.settings import Settings, SettingsError, SparkJob
from infra.settings_files import check_context, read_file, read_settings, settings_path

ACCOUNT = "111122223333"
REGION = "eu-central-1"
ENVIRONMENT = {"CDK_DEFAULT_ACCOUNT": ACCOUNT, "CDK_DEFAULT_REGION": REGION}
STACK = "graveler-stateful"
SOURCE = "from deployments/graveler.json"
LOOKUP_ROLE = f"arn:aws:iam::{ACCOUNT}:role/cdk-hnb659fds-lookup-role-{ACCOUNT}-{REGION}"

SESSION = get_session()

Script = Callable[[Stubber], None]


class Aws:
    """Clients of botocore whose answers are scripted, and checked against the services' own models. ``scripts``: for each client
    in turn, its service and its answers."""

    def __init__(self, *scripts: tuple[str, Script]) -> None:
        self._scripts = list(scripts)
        self._stubs: list[Stubber] = []

    def __call__(self, service: str, **options: Any) -> Any:
        expected, script = self._scripts.pop(0)
        assert service == expected
        options = {"aws_access_key_id": "AKIA", "aws_secret_access_key": "secret", **options}
        client = SESSION.create_client(service, **options)
        stub = Stubber(client)
        script(stub)
        stub.activate()
        self._stubs.append(stub)
        return client

    def is_done(self) -> bool:
        for stub in self._stubs:
            stub.assert_no_pending_responses()
        return not self._scripts


def signed_in(account: str = ACCOUNT) -> tuple[str, Script]:
    answer = {"Account": account, "Arn": f"arn:aws:iam::{account}:user/ann", "UserId": "AIDA"}
    return "sts", lambda stub: stub.add_response("get_caller_identity", answer)


def described(stub: Stubber, status: str = "UPDATE_COMPLETE", *, name: str = STACK) -> None:
    stack = {"StackName": name, "StackStatus": status, "CreationTime": "2026-01-31T14:05:00Z"}
    stub.add_response("describe_stacks", {"Stacks": [stack]}, {"StackName": name})


def missing(stub: Stubber, name: str) -> None:
    stub.add_client_error(
        "describe_stacks",
        "ValidationError",
        f"Stack with id {name} does not exist",
        expected_params={"StackName": name},
    )


def recorded(values: Mapping[str, Any] | None, status: str = "UPDATE_COMPLETE") -> tuple[str, Script]:
    """A deployed stack with a record, or without one, as an earlier version made it."""

    def script(stub: Stubber) -> None:
        described(stub, status)
        resources = [("TablesF00", "AWS::DynamoDB::Table", "CREATE_COMPLETE")]
        if values is not None:
            kind = "AWS::CloudFormation::WaitConditionHandle"
            resources += [("Settings00000000", kind, "DELETE_COMPLETE"), ("Settings12345678", kind, "CREATE_COMPLETE")]
        answer = {
            "StackResources": [
                {"LogicalResourceId": name, "ResourceType": kind, "ResourceStatus": status, "Timestamp": "2026-01-31"}
                for name, kind, status in resources
            ]
        }
        stub.add_response("describe_stack_resources", answer, {"StackName": STACK})
        if values is not None:
            detail = {
                "LogicalResourceId": "Settings12345678",
                "ResourceType": "AWS::CloudFormation::WaitConditionHandle",
                "ResourceStatus": "CREATE_COMPLETE",
                "LastUpdatedTimestamp": "2026-01-31",
                "Metadata": json.dumps({METADATA: json.dumps(values)}),
            }
            stub.add_response(
                "describe_stack_resource",
                {"StackResourceDetail": detail},
                {"StackName": STACK, "LogicalResourceId": "Settings12345678"},
            )

    return "cloudformation", script


def compared(
    aws: Aws, *confirmed: str, environment: Mapping[str, str] = ENVIRONMENT, **options: Any
) -> tuple[list[str], DeployedStacks]:
    stacks = DeployedStacks("graveler", environment, clients=aws)
    return check_settings(stacks, Settings(**options), confirmed, SOURCE), stacks


OPTIONS: dict[str, Any] = {
    "encryption_key": "own",
    "web_acl": "arn:aws:wafv2:us-east-1:111122223333:global/webacl/lake/0b1f7a3e",
    "certificate": "arn:aws:acm:us-east-1:111122223333:certificate/0b1f7a3e",
    "domain": "lake.example.org",
    "cors_origins": ("https://example.org",),
}


@pytest.mark.parametrize("status", ["UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "CREATE_COMPLETE"])
def test_settings_as_deployed_need_no_confirmation(status: str) -> None:
    aws = Aws(signed_in(), recorded(Settings(**OPTIONS).values(), status))
    lines, _ = compared(aws, **OPTIONS)
    assert lines == []
    assert aws.is_done()


KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0b1f7a3e"
ADOPTED_TABLE: dict[str, Any] = {"table": "old-table", "sealing_key": KEY}
NAMED: dict[str, Any] = {"domain": OPTIONS["domain"], "certificate": OPTIONS["certificate"]}
FIREWALL: dict[str, Any] = {**NAMED, "web_acl": OPTIONS["web_acl"]}
CHANGED: dict[str, dict[str, Any]] = {
    "architecture": {"architecture": "x86_64"},
    "removal": {"removal": "destroy"},
    "bucket": {"bucket": "old-objects"},
    "landing_bucket": {"landing_bucket": "old-landing"},
    "table": {"table": "lake-then"},
    "sealing_key": ADOPTED_TABLE,
    "first_key": {**ADOPTED_TABLE, "first_key": f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:Key-AbCdEf"},
    "data_buckets": {"data_buckets": ("one", "two/")},
    "import_buckets": {"import_buckets": ("one",)},
    "ingest": {"ingest": False},
    "ingest_buckets": {"ingest_buckets": ("one",)},
    "presign_seconds": {"presign_seconds": 60},
    "cors_origins": {"cors_origins": ("https://example.org",)},
    "staging_shards": {"staging_shards": 16},
    "warm_reads": {"warm_reads": 20_000},
    "warm_writes": {"warm_writes": 20_000},
    "request_records": {"request_records": 1},
    "part_records": {"part_records": 1},
    "parts_at_once": {"parts_at_once": 1},
    "spark": {"spark": True},
    "spark_release": {"spark_release": "emr-spark-8.1.0"},
    "spark_cpus": {"spark_cpus": 32},
    "spark_jobs_at_once": {"spark_jobs_at_once": 2},
    "spark_executor_cpus": {"spark_executor_cpus": 8},
    "spark_executor_memory": {"spark_executor_memory": 13},
    "spark_executor_disk": {"spark_executor_disk": 21},
    "encryption_key": {"encryption_key": "own"},
    "former_encryption_keys": {"former_encryption_keys": ("own", KEY)},
    "kms_keys": {"kms_keys": (KEY,)},
    "spark_jobs": {"spark": True, "spark_jobs": {"nightly": SparkJob("rate(1 hour)", "gc", ("--repository", "sales"))}},
    "api_connection": {"api_connection": f"arn:aws:events:{REGION}:{ACCOUNT}:connection/graveler/id"},
    "checks": {"checks": Checks(private_hosts=("hooks.internal",))},
    "check_function": {"check_function": True},
    "check_memory": {"check_memory": 4096},
    "check_scratch": {"check_scratch": 4096},
    "table_credentials": {"table_credentials": True},
    "aws_login": {"aws_login": ("endpoint",)},
    "domain": NAMED,
    "certificate": NAMED,
    "hosted_zone": {**NAMED, "hosted_zone": "Z0EXAMPLE"},
    "only_domain": {**NAMED, "only_domain": True},
    "web_acl": FIREWALL,
    "front_door_key": {**FIREWALL, "front_door_key": 2},
    "requests_per_second": {"requests_per_second": 10},
    "burst": {"burst": 10},
    "throttles": {"throttles": ("mergeIntoBranch=20/40",)},
    "memory": {"memory": 2048},
    "scratch": {"scratch": 1024},
    "snap_start": {"snap_start": ("read",)},
    "provisioned": {"provisioned": ("read=2",)},
    "shared_cache": {"shared_cache": True},
    "permissions_boundary": {"permissions_boundary": f"arn:aws:iam::{ACCOUNT}:policy/Functions"},
    "reserved_concurrency": {"reserved_concurrency": 10},
    "paused": {"paused": True},
    "log_days": {"log_days": 7},
    "tracing": {"tracing": True},
    "alarm_email": {"alarm_email": "on-call@example.org"},
    "monthly_budget": {"monthly_budget": 50},
}
"""Settings by the one that they change from its default, with those that it needs."""


class Kept(DeployedStacks):
    """Stacks with this record, as a template holds it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__("graveler", {})
        self._record = json.dumps(Settings(**settings).values())

    def settings(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self._record)
        return values


def test_each_setting_has_a_case() -> None:
    assert set(CHANGED) == set(Settings.__dataclass_fields__) - {"name", "spark_package"}


@pytest.mark.parametrize("name", CHANGED)
def test_no_setting_is_taken_back_or_given_without_being_named(name: str) -> None:
    """``name`` changes from another value to the default and back; all its companions stay, or are confirmed."""
    changed = CHANGED[name]
    assert check_settings(Kept(**changed), Settings(**changed), (), SOURCE) == []
    default = {other: value for other, value in changed.items() if other != name}
    try:
        Settings(**default)
    except SettingsError:
        default = {}
    for deployed, options in ((changed, default), (default, changed)):
        with pytest.raises(SettingsError, match=f"(?m)^ *{name}\\b"):
            check_settings(Kept(**deployed), Settings(**options), [other for other in changed if other != name], SOURCE)


def test_another_order_of_a_list_is_a_difference_and_an_operation_is_compared_as_it_was_written() -> None:
    with pytest.raises(SettingsError, match=r'data_buckets: \["one", "two"\] → \["two", "one"\]'):
        check_settings(Kept(data_buckets=("one", "two")), Settings(data_buckets=("two", "one")), (), SOURCE)
    body = {"force": None, "Ref": "main", "count": 1, "dry": False}
    jobs: dict[str, Any] = {
        "spark": True,
        "api_connection": f"arn:aws:events:{REGION}:{ACCOUNT}:connection/graveler/id",
        "spark_jobs": {
            "nightly": SparkJob("rate(1 hour)", "gc", calls=({"method": "POST", "path": "/x", "body": body},))
        },
    }
    assert check_settings(Kept(**jobs), Settings(**jobs), (), SOURCE) == []


def test_an_option_that_was_left_out_is_refused_until_it_is_confirmed() -> None:
    deployed = recorded(Settings(**OPTIONS).values())
    options: dict[str, Any] = {"former_encryption_keys": ("own",), "cors_origins": ("https://example.org",)}
    with pytest.raises(SettingsError) as refused:
        compared(Aws(signed_in(), deployed), "web_acl", **options)
    lines = str(refused.value).splitlines()
    assert lines[0] == f"These settings ({SOURCE}) differ from those that {STACK} was deployed with:"
    assert '  encryption_key: "own" → ""' in lines
    assert '  former_encryption_keys: [] → ["own"]' in lines
    assert f'  web_acl: "{OPTIONS["web_acl"]}" → ""' in lines
    names = lines[-1].partition("-c graveler:confirm=")[2].split(",")
    assert names == ["encryption_key", "former_encryption_keys", "domain", "certificate", "web_acl"], "in their order"
    confirmed, _ = compared(Aws(signed_in(), deployed), *names, **options)
    assert [line.split(":")[1].strip() for line in confirmed] == names


def test_a_key_is_not_taken_back_while_nothing_can_read_what_it_encrypted() -> None:
    for key in ("own", f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0b1f7a3e"):
        aws = Aws(signed_in(), recorded(Settings(encryption_key=key).values()))
        with pytest.raises(SettingsError, match=f"what {key} has encrypted .* add {key} to former_encryption_keys"):
            compared(aws, "encryption_key")


def test_a_deployment_keeps_what_it_created_or_adopted() -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({}, {"bucket": "other"}, 'bucket "other": the deployment has created its own, and cannot change that'),
        ({"landing_bucket": "old-one"}, {}, 'landing_bucket "": the deployment uses old-one, and cannot change that'),
    ]
    for deployed, options, said in cases:
        aws = Aws(signed_in(), recorded(Settings(**deployed).values()))
        with pytest.raises(SettingsError, match=said):
            compared(aws, "bucket", "landing_bucket", **options)


def test_settings_of_other_versions_differ_only_if_they_had_a_value() -> None:
    values = {**Settings().values(), "gone": "", "removed": "value"}
    del values["memory"]
    with pytest.raises(SettingsError) as refused:
        compared(Aws(signed_in(), recorded(values)))
    assert '  removed: "value" → (no setting of this version)' in str(refused.value)
    assert "gone" not in str(refused.value)
    assert "memory" not in str(refused.value)
    lines, _ = compared(Aws(signed_in(), recorded(values)), "removed")
    assert lines == ['Confirmed: removed: "value" → (no setting of this version)']


def test_a_confirmation_of_no_setting_is_refused() -> None:
    with pytest.raises(SettingsError, match="confirm: encryption, memry: no settings"):
        compared(Aws(signed_in(), recorded(Settings().values())), "memry", "encryption", "memory")


def test_a_stack_in_between_is_not_compared() -> None:
    for status, harmless in (
        ("DELETE_FAILED", True),
        ("UPDATE_ROLLBACK_FAILED", True),
        ("UPDATE_IN_PROGRESS", False),
        ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", False),
    ):
        scripts = (signed_in(), ("cloudformation", partial(described, status=status)))
        if not harmless:
            with pytest.raises(SettingsError, match=f"{STACK} is {status}; wait until that is done"):
                compared(Aws(*scripts))
        lines, _ = compared(Aws(*scripts), *(() if harmless else ("uncompared",)))
        assert f"{STACK} is {status}" in lines[0]


def test_what_was_not_compared_is_said() -> None:
    offline = EndpointConnectionError(endpoint_url="https://sts.eu-central-1.amazonaws.com/")

    def unreachable(service: str, **_: Any) -> Any:
        raise offline

    for aws, environment, said in (
        (Aws(), {}, "the CDK has found no credentials, or no region."),
        (unreachable, ENVIRONMENT, "AWS cannot be reached: Could not connect"),
        (Aws(signed_in(), ("cloudformation", lambda s: missing(s, STACK))), ENVIRONMENT, f"there is no stack {STACK}."),
        *(
            (
                Aws(signed_in(), ("cloudformation", partial(described, status=status))),
                ENVIRONMENT,
                f"there is no stack {STACK}.",
            )
            for status in ("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
        ),
    ):
        lines, _ = compared(aws, environment=environment)  # type: ignore[arg-type]
        assert len(lines) == 1
        assert lines[0].startswith("The settings were not compared with deployed ones: ")
        assert said in lines[0]


def test_what_cannot_be_compared_is_refused_where_it_could_be_deployed() -> None:
    def denied(stub: Stubber) -> None:
        stub.add_client_error("describe_stacks", "AccessDenied", "no identity-based policy allows the action")

    def no_role(stub: Stubber) -> None:
        signed_in()[1](stub)
        stub.add_client_error("assume_role", "AccessDenied", "not authorized")

    for scripts, said in (
        ((signed_in(), recorded(None)), "has no record of its settings, since an earlier version deployed it"),
        (
            (signed_in("444455556666"),),
            f"deploys to account {ACCOUNT}, but the credentials of the environment belong to",
        ),
        ((signed_in(), ("cloudformation", denied), ("sts", no_role)), "may neither read stacks"),
    ):
        with pytest.raises(SettingsError, match=said) as refused:
            compared(Aws(*scripts))
        assert "graveler:confirm=uncompared" in str(refused.value)
        lines, _ = compared(Aws(*scripts), "uncompared")
        assert said in lines[0]


def test_who_may_only_assume_the_roles_of_the_cdk_looks_with_the_one_for_it() -> None:
    def denied(stub: Stubber) -> None:
        stub.add_client_error("describe_stacks", "AccessDenied", "no identity-based policy allows the action")

    def assumed(stub: Stubber) -> None:
        signed_in()[1](stub)
        credentials = {
            "AccessKeyId": "ASIAEXAMPLEEXAMPLE",
            "SecretAccessKey": "secret",
            "SessionToken": "token",
            "Expiration": "2026-01-31T14:05:00Z",
        }
        stub.add_response(
            "assume_role",
            {"Credentials": credentials},
            {"RoleArn": LOOKUP_ROLE, "RoleSessionName": "graveler-settings"},
        )

    aws = Aws(signed_in(), ("cloudformation", denied), ("sts", assumed), recorded(Settings().values()))
    assert compared(aws)[0] == []
    assert aws.is_done()


def test_stacks_of_options_that_are_off_are_named_with_what_deletes_them() -> None:
    def script(stub: Stubber) -> None:
        described(stub, name="graveler-spark")
        missing(stub, "graveler-network")

    stacks = DeployedStacks("graveler", ENVIRONMENT, clients=Aws(signed_in(), ("cloudformation", script)))
    (line,) = left_out(stacks, "graveler", ["spark", "network"])
    assert line.startswith("graveler-spark is deployed, but the settings leave it out.")
    assert line.endswith("aws cloudformation delete-stack --stack-name graveler-spark")
    assert left_out(DeployedStacks("graveler", {}), "graveler", ["spark"]) == []


def test_a_settings_file_stands_between_the_defaults_and_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "graveler.json").write_text('{"memory": 2048, "log_days": 7, "cors_origins": ["https://example.org"]}')
    context = {"graveler": {"memory": 1024, "scratch": 1024, "log_days": 14}, "graveler:log_days": "3"}
    path = settings_path(context.get, tmp_path)
    assert path == tmp_path / "graveler.json"
    settings = read_settings(context.get, read_file(path))
    assert (settings.memory, settings.scratch, settings.log_days) == (2048, 1024, 3)
    assert settings.cors_origins == ("https://example.org",)


def test_a_settings_file_is_chosen_by_its_name_that_of_the_deployment_or_a_path(tmp_path: Path) -> None:
    for name in ("graveler", "staging", "eu"):
        (tmp_path / f"{name}.json").write_text("{}")

    def chosen(**context: str) -> Path | None:
        return settings_path({f"graveler:{name}": value for name, value in context.items()}.get, tmp_path)

    assert chosen() == tmp_path / "graveler.json"
    assert chosen(name="staging") == tmp_path / "staging.json"
    assert chosen(name="staging", deployment="eu") == tmp_path / "eu.json"
    assert chosen(deployment=str(tmp_path / "eu.json")) == tmp_path / "eu.json"
    assert chosen(deployment="none") is None
    assert chosen(name="other") is None
    with pytest.raises(SettingsError, match=r"deployment 'us': there is no file .*us\.json"):
        chosen(deployment="us")


def test_a_setting_on_the_command_line_that_is_none_is_refused() -> None:
    check_context(["graveler", "graveler:memory", "graveler:deployment", "graveler:confirm", "@aws-cdk/core:x"])
    with pytest.raises(SettingsError, match="graveler:enryption_key: unknown"):
        check_context(["graveler:memory", "graveler:enryption_key"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "must hold an object of JSON"),
        ('{"web_acl": "arn:…", "memory": 1769, "web_acl": ""}', r"cannot be read: twice in it: web_acl"),
        ('{"memry": 1}', r"graveler\.json: memry: unknown"),
    ],
)
def test_a_settings_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "graveler.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=said):
        read_file(path)
