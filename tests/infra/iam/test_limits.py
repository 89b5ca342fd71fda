"""Roles stay within their limits: nobody but `write` and `setup` changes access keys, functions that write metadata put nothing
else, and the flow of Spark jobs reads its own secret. Each wider right that is planted is found."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from graveler.access import keys, principal_rules, tokens
from graveler.api import idempotency, reserved_names
from graveler.ingest import rules, waiting_repositories
from graveler.lake.gates.lake_rules import LAKE_RULES
from graveler.lake.opening import nesting, repositories
from graveler.storage.objects.tree_files import FOLDER
from graveler.storage.secrets import keyring
from graveler.tree import record
from infra import foreign_places
from tests.infra.iam.limits import OF_KEYS, OF_REPOSITORIES, breaches, flows, gaps, roles
from tests.infra.iam.templates import Stacks

Templates = dict[str, dict[str, Any]]


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.ci) for name in ("default", "full", "other")])
def variant(request: pytest.FixtureRequest) -> Stacks:
    return Stacks(request.getfixturevalue(request.param))


def test_roles_may_do_what_they_need_and_nothing_beyond_their_limits(variant: Stacks) -> None:
    assert list(breaches(variant)) == []
    assert list(gaps(variant)) == []
    functions = {"Read", "Write", "Commit", "Merge", "Catalog", "Diff", "Maintain", "Setup", "Operate", "Ingest"}
    assert functions <= set(roles(variant)) <= {*functions, "Job", "Check"}


def test_the_variant_with_every_option_has_jobs_data_buckets_and_a_flow_that_calls_the_api(full: Templates) -> None:
    stacks = Stacks(full)
    assert "Job" in roles(stacks)
    assert len(flows(stacks)) == 1


def test_partitions_and_the_folder_of_metadata_are_the_engines() -> None:
    of_keys = {
        *(keys._PARTITION, keys._FIRST.partition, principal_rules._PARTITION, tokens._ENDED),
        *(row.partition for row in (keyring.TOKEN_SECRET, keyring.URL_SECRET, keyring.RECORD, repositories.LAKE)),
    }
    assert of_keys == set(OF_KEYS)
    of_repositories = {
        *(repositories.PARTITION, repositories.DELETED_PARTITION, repositories.NAMESPACES_PARTITION, nesting._NOTES),
        *(reserved_names.PARTITION, idempotency.PARTITION, rules.PARTITION, waiting_repositories.PARTITION),
        LAKE_RULES.partition,
    }
    assert of_repositories == {name for name in OF_REPOSITORIES if not re.match("[0-9a-f]{16}/", name)}
    assert foreign_places.METADATA == FOLDER
    assert f"{foreign_places.TABLES}/" == record.TABLES


def statements(templates: Templates, logical: str) -> list[dict[str, Any]]:
    """Those of the policies whose logical ID begins so."""
    return [
        statement
        for template in templates.values()
        for name, each in template["Resources"].items()
        if each["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy") and name.startswith(logical)
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
    ]


def having(templates: Templates, logical: str, action: str, text: str = "") -> dict[str, Any]:
    """The first of such statements that allows an action and has a text in it."""
    return next(
        each
        for each in statements(templates, logical)
        if action in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
        and text in json.dumps(each)
    )


def no_condition(templates: Templates) -> None:
    del having(templates, "FunctionsCommitPolicy", "dynamodb:PutItem")["Condition"]


def no_values_at_all(templates: Templates) -> None:
    """``ForAllValues`` alone, as AWS's own examples have it."""
    del having(templates, "FunctionsMergePolicy", "dynamodb:PutItem")["Condition"]["Null"]


def any_value(templates: Templates) -> None:
    """One good partition of a request would be enough."""
    condition = having(templates, "FunctionsMaintainPolicy", "dynamodb:BatchWriteItem")["Condition"]
    condition["ForAnyValue:StringLike"] = condition.pop("ForAllValues:StringLike")


def wide_pattern(templates: Templates) -> None:
    partitions = having(templates, "FunctionsCommitPolicy", "dynamodb:PutItem")["Condition"]["ForAllValues:StringLike"]
    partitions["dynamodb:LeadingKeys"].append("*/*")


def lake(templates: Templates) -> None:
    partitions = having(templates, "FunctionsOperatePolicy", "dynamodb:PutItem")["Condition"]["ForAllValues:StringLike"]
    partitions["dynamodb:LeadingKeys"].append("lake")


def read_by_ingest(templates: Templates) -> None:
    partitions = having(templates, "FunctionsIngestPolicy", "dynamodb:GetItem")["Condition"]["ForAllValues:StringLike"]
    partitions["dynamodb:LeadingKeys"].append("access*")


def written_by_readers(templates: Templates) -> None:
    having(templates, "FunctionsReadPolicy", "dynamodb:GetItem")["Action"].append("dynamodb:PutItem")


def scan(templates: Templates) -> None:
    having(templates, "FunctionsDiffPolicy", "dynamodb:GetItem")["Action"].append("dynamodb:Scan")


def every_action(templates: Templates) -> None:
    having(templates, "FunctionsMergePolicy", "dynamodb:GetItem")["Action"] = "dynamodb:*"


def setup_everywhere(templates: Templates) -> None:
    del having(templates, "FunctionsSetupPolicy", "dynamodb:PutItem")["Condition"]


def every_object(templates: Templates) -> None:
    having(templates, "FunctionsCommitPolicy", "s3:GetObject", "Objects")["Action"] = ["s3:GetObject", "s3:PutObject"]


def beside_metadata(templates: Templates) -> None:
    put = having(templates, "FunctionsIngestPolicy", "s3:PutObject")
    put["Resource"] = json.loads(json.dumps(put["Resource"]).replace("_graveler/*", "_graveler*"))


def metadata_by_readers(templates: Templates) -> None:
    files = having(templates, "FunctionsCommitPolicy", "s3:PutObject")["Resource"]
    for statement in statements(templates, "FunctionsReadPolicy"):
        if statement["Action"] == "s3:GetObject":
            statement["Action"], statement["Resource"] = ["s3:GetObject", "s3:PutObject"], files
            return


def in_data_buckets(templates: Templates) -> None:
    """Managed policies are shared: any that lets graveler's own files be put now lets everything."""
    for statement in statements(templates, "FunctionsBucketsPolicy"):
        if statement["Action"] == "s3:PutObject":
            statement["Resource"] = "arn:aws:s3:::first-bucket/*"


def statuses_by_checks(templates: Templates) -> None:
    """Who makes checks would say themselves that they passed."""
    partitions = having(templates, "FunctionsCheckPolicy", "dynamodb:PutItem")["Condition"]["ForAllValues:StringLike"]
    partitions["dynamodb:LeadingKeys"] = "????????????????/*"


def tables_by_committers(templates: Templates) -> None:
    put = having(templates, "FunctionsCommitPolicy", "s3:PutObject")
    put["Resource"] = [
        *put["Resource"],
        having(templates, "FunctionsCatalogPolicy", "s3:PutObject", "/tables/")["Resource"],
    ]


def deletion_by_clients(templates: Templates) -> None:
    having(templates, "TableCredentialsPolicy", "s3:PutObject")["Action"].append("s3:DeleteObject")


def jobs(templates: Templates) -> None:
    del having(templates, "JobPolicy", "dynamodb:PutItem")["Condition"]


def every_connection(templates: Templates) -> None:
    secret = having(templates, "FlowPolicy", "secretsmanager:GetSecretValue")
    secret["Resource"] = json.loads(json.dumps(secret["Resource"]).replace("connection/graveler/*", "connection/*"))


def connections_that_begin_so(templates: Templates) -> None:
    secret = having(templates, "FlowPolicy", "secretsmanager:GetSecretValue")
    secret["Resource"] = json.loads(json.dumps(secret["Resource"]).replace("graveler/*", "graveler*"))


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (no_condition, "CommitRole.*dynamodb:PutItem"),
        (no_values_at_all, "MergeRole.*dynamodb:PutItem .*of no partition"),
        (any_value, "MaintainRole.*dynamodb:BatchWriteItem .*repositories, access-keys"),
        (wide_pattern, "CommitRole.*access/ended-tokens"),
        (lake, "OperateRole.*dynamodb:PutItem .*lake"),
        (read_by_ingest, "IngestRole.*dynamodb:GetItem .*access-keys"),
        (written_by_readers, "ReadRole.*dynamodb:PutItem"),
        (scan, "DiffRole.*dynamodb:Scan"),
        (every_action, "MergeRole.*dynamodb:PutItem"),
        (setup_everywhere, "SetupRole.*dynamodb:PutItem .*repositories"),
        (every_object, "CommitRole.*s3:PutObject .*data/g/"),
        (beside_metadata, "IngestRole.*s3:PutObject .*_graveler0/x"),
        (metadata_by_readers, "ReadRole.*s3:PutObject .*_graveler/ranges"),
        (in_data_buckets, "CommitRole.*s3:PutObject on arn:aws:s3:::first-bucket/data"),
        (tables_by_committers, "CommitRole.*s3:PutObject .*/tables/"),
        (jobs, "JobRole.*dynamodb:PutItem"),
        (every_connection, "FlowRole.*secretsmanager:GetSecretValue .*connection/other/id"),
        (connections_that_begin_so, "FlowRole.*secretsmanager:GetSecretValue .*connection/graveler-2/id"),
    ],
)
def test_each_wider_right_is_found(full: Templates, plant: Callable[[Templates], None], said: str) -> None:
    templates = copy.deepcopy(full)
    plant(templates)
    assert templates != full
    problems = list(breaches(Stacks(templates)))
    assert any(re.search(said, breach) for breach in problems), problems[:5]


def test_a_wider_right_of_the_function_of_checks_is_found(other: Templates) -> None:
    templates = copy.deepcopy(other)
    statuses_by_checks(templates)
    assert any(re.search("CheckRole.*dynamodb:PutItem .*/statuses", breach) for breach in breaches(Stacks(templates)))


def test_a_wider_right_of_clients_of_tables_is_found(other: Templates) -> None:
    templates = copy.deepcopy(other)
    deletion_by_clients(templates)
    assert any(re.search("TableCredentials.*s3:DeleteObject", breach) for breach in breaches(Stacks(templates)))
