"""A deployment that adopts what an earlier one left; what finds that; and options that come and go without a trap."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.session import Session
from botocore.stub import Stubber

from infra.leftovers import LeftoversError, advice, leftovers, main, merged
from infra.settings import SettingsError
from infra.settings_files import read_settings
from tests.infra.conftest import ADOPTED, BOUNDARY, ENCRYPTION_KEY, SEALING_KEY
from tests.infra.tools import policies, resources

Templates = dict[str, dict[str, Any]]
SESSION = Session()
CREATE_CLIENT = Session.create_client
ARN = "arn:aws:{}:eu-central-1:111122223333:{}"
LEFT = {
    "arn:aws:s3:::old-objects": "bucket",
    "arn:aws:s3:::old-landing": "landing_bucket",
    ARN.format("dynamodb", "table/old-table"): "table",
    ARN.format("kms", "key/1"): "sealing_key",
    ARN.format("secretsmanager", "secret:FirstKey-AbCdEf"): "first_key",
    ARN.format("kms", "key/2"): "encryption_key",
}
"""Settings by the ARNs of what is left."""


@pytest.mark.ci
def test_what_is_adopted_is_not_created(adopted: Templates, default: Templates) -> None:
    stateful = adopted["stateful"]
    kinds = {each["Type"] for each in stateful["Resources"].values()}
    assert kinds == {"AWS::KMS::Key", "AWS::CloudFormation::WaitConditionHandle"}
    (own,) = resources(stateful, "AWS::KMS::Key")
    assert own.startswith("EncryptionKey")
    outputs = {name: each["Value"] for name, each in stateful["Outputs"].items()}
    for output, setting in (
        ("ObjectsBucket", "bucket"),
        ("LandingBucket", "landing_bucket"),
        ("LakeTable", "table"),
        ("SealingKeyArn", "sealing_key"),
        ("FirstKeySecret", "first_key"),
    ):
        assert outputs[output] == ADOPTED[setting]
    for name, template in adopted.items():
        if name not in ("stateful", "network"):
            imported = set(_imports(template))
            assert not {each for each in imported if each.startswith("graveler-stateful:")}, name


@pytest.mark.ci
def test_functions_use_what_is_adopted(adopted: Templates) -> None:
    functions = resources(adopted["api"], "AWS::Lambda::Function")
    for name, function in functions.items():
        variables = function["Properties"]["Environment"]["Variables"]
        assert variables["GRAVELER_OBJECTS"] == "s3://old-objects"
        assert variables["GRAVELER_TABLES"] == "dynamodb://old-table"
        assert variables["GRAVELER_INGEST_BUCKETS"] == "old-landing"
        if "Setup" in name:
            assert variables["GRAVELER_KMS_KEY"] == SEALING_KEY
            assert variables["GRAVELER_FIRST_KEY_SECRET"] == ADOPTED["first_key"]
    statements = [
        statement
        for policy in policies(adopted["api"])
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Resource"] == SEALING_KEY
    ]
    assert statements
    for statement in statements:
        assert statement["Condition"] == {"StringEquals": {"kms:EncryptionContext:graveler:table": "old-table"}}
    (rule,) = (each for name, each in resources(adopted["ingest"], "AWS::Events::Rule").items() if "Objects" in name)
    assert "old-landing" in json.dumps(rule["Properties"]["EventPattern"])


@pytest.mark.ci
def test_former_keys_decrypt_and_do_not_encrypt(adopted: Templates) -> None:
    own_key = {"Fn::ImportValue": "graveler-own-encryption-key"}
    for stack in ("api", "operations", "ingest", "spark"):
        services_of: dict[str, set[str]] = {json.dumps(own_key): set(), json.dumps(ENCRYPTION_KEY): set()}
        for policy in policies(adopted[stack]):
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                several = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
                for key in set(map(json.dumps, several)) & set(services_of):
                    assert statement["Action"] == "kms:Decrypt"
                    services_of[key] |= set(map(json.dumps, statement["Condition"]["StringLike"]["kms:ViaService"]))
        for services in services_of.values():
            assert {"s3", "dynamodb"} <= {name for name in ("s3", "dynamodb") if any(name in each for each in services)}
    exported = {each["Export"]["Name"] for each in adopted["stateful"]["Outputs"].values() if "Export" in each}
    assert "graveler-own-encryption-key" in exported


@pytest.mark.ci
def test_a_boundary_bounds_every_role(adopted: Templates, default: Templates) -> None:
    roles = [role for template in adopted.values() for role in resources(template, "AWS::IAM::Role").values()]
    assert len(roles) > 10
    assert all(role["Properties"]["PermissionsBoundary"] == BOUNDARY for role in roles)
    assert "PermissionsBoundary" not in json.dumps(default)


@pytest.mark.ci
def test_options_are_switched_off_without_removing_an_export_that_is_in_use(
    default: Templates, full: Templates, adopted: Templates
) -> None:
    """Stacks are deployed one after the other, and CloudFormation removes no export that a deployed stack imports."""
    exported = set(_exports(default))
    assert any("ApiEndpoint" in name for name in _imports(adopted["spark"]))
    for stack, deployed in (("spark", full), ("spark", adopted), ("budget", adopted)):
        assert set(_imports(deployed[stack])) - set(_exports({"own": adopted["stateful"]})) <= exported, stack
    available = set(_exports({"stateful": default["stateful"]})) | set(_imports(default["api"]))
    assert set(_imports(default["ingest"])) <= available


@pytest.mark.ci
def test_a_key_that_is_taken_back_has_the_exports_of_before(other: Templates, adopted: Templates) -> None:
    before, after = (
        {name for name in _exports({"stateful": each["stateful"]}) if "ncryption" in name} for each in (other, adopted)
    )
    assert before == after
    assert "graveler-own-encryption-key" in before


@pytest.mark.ci
def test_the_stack_keeps_its_settings_in_a_resource_that_changes_with_them(
    default: Templates, other: Templates
) -> None:
    records = [resources(each["stateful"], "AWS::CloudFormation::WaitConditionHandle") for each in (default, other)]
    names = [name for record in records for name in record]
    assert len(names) == len(set(names)) == 2
    (kept,) = (json.loads(each["Metadata"]["graveler:settings"]) for each in records[1].values())
    assert kept["encryption_key"] == "own"
    assert kept["snap_start"] == ["read", "write", "commit", "merge", "operate"]


def _exports(deployed: Templates) -> list[str]:
    return [
        output["Export"]["Name"]
        for template in deployed.values()
        for output in template.get("Outputs", {}).values()
        if "Export" in output
    ]


def _imports(part: Any) -> list[str]:
    """The names of what a part of a template imports."""
    if isinstance(part, dict):
        names = [part["Fn::ImportValue"]] if "Fn::ImportValue" in part else []
        return names + [name for value in part.values() for name in _imports(value)]
    return [name for value in part for name in _imports(value)] if isinstance(part, list) else []


NO_BUCKET = "no bucket is left"


class Account:
    """Clients of an account in which ``tagged`` is left, of which ``missing`` is in the index only."""

    def __init__(
        self,
        tagged: dict[str, str],
        *,
        missing: tuple[str, ...] = (),
        deployed: bool = False,
        events: bool = True,
        key_state: str = "Enabled",
        encrypted_by: str | None = ARN.format("kms", "key/2"),
    ):
        self._key_state = key_state
        self._encrypted_by = encrypted_by
        self._asked_buckets = 0
        self._missing = missing
        self._scripts: dict[str, Callable[[Stubber], None]] = {
            "cloudformation": lambda stub: self._stack(stub, deployed),
            "resourcegroupstaggingapi": lambda stub: self._index(stub, tagged),
            "s3": lambda stub: self._buckets(stub, events),
        }
        self._arns = list(tagged)

    def __call__(self, service: str) -> Any:
        client = CREATE_CLIENT(
            SESSION, service, region_name="eu-central-1", aws_access_key_id="AKIA", aws_secret_access_key="secret"
        )
        stub = Stubber(client)
        if service in ("cloudformation", "resourcegroupstaggingapi") or not self._arns:
            self._scripts[service](stub)
        else:
            self._existing(stub, self._arns.pop(0))
        stub.activate()
        return client

    def _stack(self, stub: Stubber, deployed: bool) -> None:
        if deployed:
            stack = {"StackName": "graveler-stateful", "StackStatus": "UPDATE_COMPLETE", "CreationTime": "2026-01-31"}
            stub.add_response("describe_stacks", {"Stacks": [stack]})
        else:
            stub.add_client_error(
                "describe_stacks", "ValidationError", "Stack with id graveler-stateful does not exist"
            )

    def _index(self, stub: Stubber, tagged: dict[str, str]) -> None:
        mappings = [
            {"ResourceARN": arn, "Tags": [{"Key": "graveler-setting", "Value": setting}]}
            for arn, setting in tagged.items()
        ]
        filters = [{"Key": "graveler", "Values": ["graveler"]}, {"Key": "graveler-setting"}]
        stub.add_response("get_resources", {"ResourceTagMappingList": mappings}, {"TagFilters": filters})

    def _existing(self, stub: Stubber, arn: str) -> None:
        is_gone = arn in self._missing
        answers: dict[str, tuple[str, dict[str, Any], str]] = {
            "s3": ("head_bucket", {}, "404"),
            "dynamodb": ("describe_table", {"Table": {}}, "ResourceNotFoundException"),
            "kms": (
                "describe_key",
                {"KeyMetadata": {"KeyId": "1", "KeyState": "PendingDeletion" if is_gone else self._key_state}},
                "",
            ),
            "secretsmanager": ("describe_secret", {"DeletedDate": "2026-01-31"} if is_gone else {}, ""),
        }
        operation, answer, code = answers[arn.split(":")[2]]
        if is_gone and code:
            stub.add_client_error(operation, code)
        else:
            stub.add_response(operation, answer)

    def _buckets(self, stub: Stubber, events: bool) -> None:
        """Each method of them, as the asking may begin with either."""
        asks_encryption = self._asked_buckets == 0 and self._encrypted_by != NO_BUCKET
        self._asked_buckets += 1
        if not asks_encryption:
            answer: dict[str, Any] = {"EventBridgeConfiguration": {}} if events else {}
            stub.add_response("get_bucket_notification_configuration", answer, {"Bucket": "old-landing"})
        elif self._encrypted_by is None:
            stub.add_client_error("get_bucket_encryption", "ServerSideEncryptionConfigurationNotFoundError")
        else:
            by = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": self._encrypted_by}
            rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": by}]}
            stub.add_response("get_bucket_encryption", {"ServerSideEncryptionConfiguration": rules})


SETTINGS = {
    "bucket": "old-objects",
    "landing_bucket": "old-landing",
    "table": "old-table",
    "sealing_key": ARN.format("kms", "key/1"),
    "first_key": ARN.format("secretsmanager", "secret:FirstKey-AbCdEf"),
    "encryption_key": ARN.format("kms", "key/2"),
}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bucket": "My Bucket"}, "bucket 'My Bucket' must be the name of a bucket"),
        ({"landing_bucket": "a/b"}, "landing_bucket 'a/b' must be the name of a bucket"),
        ({"bucket": "one", "landing_bucket": "one"}, "bucket and landing_bucket are both 'one'"),
        ({"table": "lake", "sealing_key": "alias/mine"}, "sealing_key 'alias/mine' must be the ARN of a key"),
        ({"sealing_key": SEALING_KEY}, "sealing_key is given, but no table"),
        (
            {"table": "lake", "sealing_key": SEALING_KEY, "first_key": "mine"},
            "first_key 'mine' must be the whole ARN of a secret",
        ),
        (
            {"table": "lake", "sealing_key": SEALING_KEY, "first_key": ADOPTED["first_key"].removesuffix("-AbCdEf")},
            "must be the whole ARN of a secret",
        ),
        ({"bucket": "one", "ingest_buckets": "one"}, "ingest_buckets: 'one' is the bucket of the deployment's own"),
        ({"table": "lake", "first_key": ADOPTED["first_key"]}, "first_key is given without table and sealing_key"),
        (
            {"table": "lake", "sealing_key": SEALING_KEY, "warm_reads": 20_000},
            "warm_reads and warm_writes are for a table",
        ),
        ({"former_encryption_keys": "mine"}, "former_encryption_keys: 'mine' must be own, or the ARN of a key"),
        ({"encryption_key": "own", "former_encryption_keys": "own"}, "former_encryption_keys: 'own' is also the"),
        ({"former_encryption_keys": [f"{SEALING_KEY}{n}" for n in range(5)]}, "names more than 4 keys"),
        ({"permissions_boundary": "Functions"}, "permissions_boundary 'Functions' must be the ARN of a managed policy"),
    ],
)
def test_settings_that_adopt_what_cannot_be_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_settings({f"graveler:{name}": value for name, value in settings.items()}.get)


def test_what_is_left_is_found_by_its_tags() -> None:
    account = Account(LEFT)
    settings = leftovers("graveler", account)
    assert settings == SETTINGS
    assert advice(settings, settings, account) == []


def test_what_is_only_in_the_index_is_not_adopted_and_said() -> None:
    missing = tuple(arn for arn, setting in LEFT.items() if setting not in ("landing_bucket", "table"))
    account = Account(LEFT, missing=missing, events=False, encrypted_by=NO_BUCKET)
    settings = leftovers("graveler", account)
    assert settings == {"landing_bucket": "old-landing", "table": "old-table"}
    lines = advice(settings, settings, account)
    assert [line.split(":")[0] for line in lines[:3]] == ["bucket", "sealing_key", "first_key"]
    assert "renew" in lines[3]
    assert "put-bucket-notification-configuration --bucket old-landing" in lines[4]


def test_what_cannot_be_adopted_is_said() -> None:
    with pytest.raises(LeftoversError, match="graveler-stateful is deployed"):
        leftovers("graveler", Account(LEFT, deployed=True))
    with pytest.raises(LeftoversError, match="nothing in this account and region has the tags graveler=graveler"):
        leftovers("graveler", Account({}))
    twice = {"arn:aws:s3:::one": "bucket", "arn:aws:s3:::two": "bucket"}
    with pytest.raises(LeftoversError, match="several are left for bucket: one, two; remove the tag graveler-setting"):
        leftovers("graveler", Account(twice))


def test_a_key_that_no_setting_names_is_named_and_one_that_is_disabled_is_refused() -> None:
    left = {"bucket": "old-objects", "landing_bucket": "old-landing"}
    for settings, key, said in (
        (left, ENCRYPTION_KEY, True),
        ({**left, "encryption_key": ENCRYPTION_KEY}, ENCRYPTION_KEY, False),
        ({**left, "former_encryption_keys": [ENCRYPTION_KEY]}, ENCRYPTION_KEY, False),
        (left, None, False),
    ):
        account = Account({}, encrypted_by=key)
        lines = [line for line in advice(settings, left, account) if "could be read" in line]
        assert [line.startswith(f"old-objects is encrypted by {key}") for line in lines] == [True] * said
    with pytest.raises(LeftoversError, match="key/1 is disabled"):
        leftovers("graveler", Account(LEFT, key_state="Disabled"))


@pytest.mark.parametrize(
    ("file", "left", "expected"),
    [
        ({}, {"encryption_key": "K"}, {"encryption_key": "K"}),
        ({"encryption_key": "own"}, {"encryption_key": "K"}, {"encryption_key": "K"}),
        ({}, {"former_encryption_keys": "K"}, {"former_encryption_keys": ["K"]}),
        (
            {"former_encryption_keys": ["own", "L"]},
            {"former_encryption_keys": "K"},
            {"former_encryption_keys": ["K", "L"]},
        ),
        ({"former_encryption_keys": ["own"]}, {"encryption_key": "K"}, {"former_encryption_keys": ["K"]}),
        (
            {"encryption_key": "N", "former_encryption_keys": ["own"]},
            {"encryption_key": "K"},
            {"encryption_key": "N", "former_encryption_keys": ["K"]},
        ),
        ({"encryption_key": "N"}, {"encryption_key": "K"}, {"encryption_key": "N", "former_encryption_keys": ["K"]}),
        ({"encryption_key": "K"}, {"encryption_key": "K"}, {"encryption_key": "K"}),
        ({"encryption_key": "N"}, {}, {"encryption_key": "N"}),
        ({"table": "lake-then"}, {"table": "lake", "sealing_key": "S"}, {"table": "lake-then", "sealing_key": "S"}),
    ],
)
def test_what_a_settings_file_names_stays_and_what_was_encrypted_can_be_read(
    file: dict[str, Any], left: dict[str, str], expected: dict[str, Any]
) -> None:
    assert merged("graveler", file, left) == {"name": "graveler", **expected}


def test_a_settings_file_of_another_deployment_is_not_written() -> None:
    with pytest.raises(LeftoversError, match="belongs to the deployment staging; name another by --deployment"):
        merged("graveler", {"name": "staging"}, {"bucket": "old-objects"})
    lines = advice({"table": "lake-then"}, {"table": "lake"}, Account({}, encrypted_by=NO_BUCKET))
    assert "table: lake is left, but the settings file names lake-then" in lines


def test_the_command_keeps_the_settings_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    account = Account(LEFT)
    monkeypatch.setattr(Session, "create_client", lambda _session, service: account(service))
    file = tmp_path / "graveler.json"
    file.write_text('{"memory": 2048, "encryption_key": "own"}')
    assert main(["graveler"], folder=tmp_path) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"name": "graveler", "memory": 2048, **SETTINGS}
    assert printed.err == ""
    assert json.loads(file.read_text()) == {"memory": 2048, "encryption_key": "own"}
    account = Account(LEFT)
    assert main(["graveler", "--write", "--deployment", "eu"], folder=tmp_path) == 0
    assert json.loads((tmp_path / "eu.json").read_text()) == {"name": "graveler", **SETTINGS}
    assert json.loads(file.read_text()) == {"memory": 2048, "encryption_key": "own"}
    capsys.readouterr()
    account = Account(LEFT, deployed=True)
    assert main(["graveler", "--write"], folder=tmp_path) == 1
    assert "graveler-stateful is deployed" in capsys.readouterr().err
