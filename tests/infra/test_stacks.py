"""The templates: properties that matter for safety, cost and quiet nights."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.feature_flags import feature_flags
from tests.infra.conftest import (
    CERTIFICATE,
    CHECKS,
    DOMAIN,
    EASTERN,
    ENCRYPTION_KEY,
    KMS_KEY,
    LONG_NAMES,
    SPARK_JOBS,
    WEB_ACL,
)
from tests.infra.tools import PYTHON, environment, policies, resources, synthesise, templates

pytestmark = pytest.mark.ci

SNAPSHOT = Path(__file__).parent / "snapshot.json"
SNAPSHOT_OF_OTHER = Path(__file__).parent / "snapshot_of_other.json"
API_GATEWAY_SECONDS = 30
FUNCTIONS = {"api": 8, "operations": 1, "ingest": 1}
"""How many functions each stack has."""

Templates = dict[str, dict[str, Any]]


def test_templates_are_as_reviewed(default_assembly: Path, other_assembly: Path) -> None:
    """A change of the templates is a change of these files, which somebody reads: `python -m tests.infra.make_snapshot`."""
    assert json.loads(SNAPSHOT.read_text()) == snapshot(default_assembly)
    assert json.loads(SNAPSHOT_OF_OTHER.read_text()) == snapshot(other_assembly)


def snapshot(assembly: Path) -> dict[str, Any]:
    """The templates without what changes with every build."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", json.dumps(templates(assembly)))
    # A version is named after what its function is made of.
    text = re.sub(r"(CurrentVersion[0-9A-F]{8})[0-9a-f]{32}\b", r"\1DIGEST", text)
    text = re.sub(r'"Settings[0-9a-f]{8}"', '"SettingsDIGEST"', text)
    loaded: dict[str, Any] = json.loads(text)
    record = loaded["stateful"]["Resources"]["SettingsDIGEST"]["Metadata"]
    record["graveler:settings"] = json.loads(record["graveler:settings"])
    return loaded


def test_cfn_lint_finds_nothing(
    default_assembly: Path, full_assembly: Path, other_assembly: Path, adopted_assembly: Path
) -> None:
    assemblies = (default_assembly, full_assembly, other_assembly, adopted_assembly)
    files = [str(file) for each in assemblies for file in each.glob("*.template.json")]
    # W3005: CDK names dependencies that follow from references as well.
    done = subprocess.run(
        [PYTHON.with_name("cfn-lint"), "--ignore-checks", "W3005", "--regions", "us-east-1", "--", *files],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_no_action_and_no_data_is_granted_by_a_wildcard(default: Templates, full: Templates, other: Templates) -> None:
    for deployed in (default, full, other):
        for template in deployed.values():
            for policy in policies(template):
                for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                    actions = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
                    assert not any("*" in action for action in actions)
                    if statement["Resource"] == "*":
                        assert all(
                            action.startswith(("ec2:", "xray:", "logs:", "states:SendTask")) for action in actions
                        ), actions


def test_each_function_has_a_role_of_its_own(default: Templates) -> None:
    for stack, amount in FUNCTIONS.items():
        functions = resources(default[stack], "AWS::Lambda::Function")
        roles = [function["Properties"]["Role"]["Fn::GetAtt"][0] for function in functions.values()]
        assert len(functions) == len(set(roles)) == amount
        assert not any(
            role["Properties"].get("ManagedPolicyArns") for role in resources(default[stack], "AWS::IAM::Role").values()
        )


def test_functions_end_before_the_gateway_gives_up(default: Templates) -> None:
    for name, function in resources(default["api"], "AWS::Lambda::Function").items():
        if "Maintain" not in name:
            assert function["Properties"]["Timeout"] < API_GATEWAY_SECONDS


def test_data_outlives_its_stack(default: Templates) -> None:
    for kind, amount in (("AWS::S3::Bucket", 2), ("AWS::DynamoDB::Table", 1)):
        found = resources(default["stateful"], kind).values()
        assert len(found) == amount
        for kept in found:
            assert kept["DeletionPolicy"] == kept["UpdateReplacePolicy"] == "Retain"
    (table,) = resources(default["stateful"], "AWS::DynamoDB::Table").values()
    properties = table["Properties"]
    assert properties["DeletionProtectionEnabled"] is True
    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}


def test_the_table_has_the_keys_that_the_library_uses(default: Templates) -> None:
    from graveler.storage.tables.dynamodb import EXPIRES, PARTITION, SORT
    from infra.stateful_names import PARTITION_KEY, SORT_KEY, TTL_ATTRIBUTE

    assert (PARTITION_KEY, SORT_KEY, TTL_ATTRIBUTE) == (PARTITION, SORT, EXPIRES)
    (table,) = resources(default["stateful"], "AWS::DynamoDB::Table").values()
    assert table["Properties"]["AttributeDefinitions"] == [
        {"AttributeName": PARTITION, "AttributeType": "S"},
        {"AttributeName": SORT, "AttributeType": "B"},
    ]


@pytest.mark.parametrize("name", ["Objects", "Landing"])
def test_buckets_are_private_encrypted_and_forget_half_uploads(default: Templates, name: str) -> None:
    logical, bucket = next(
        (each, found) for each, found in resources(default["stateful"], "AWS::S3::Bucket").items() if name in each
    )
    properties = bucket["Properties"]
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert properties["BucketEncryption"]
    rules = properties["LifecycleConfiguration"]["Rules"]
    assert any(rule.get("AbortIncompleteMultipartUpload") == {"DaysAfterInitiation": 7} for rule in rules)
    # What is deleted stays for as long as the table can be restored to a time at which it was there.
    (table,) = resources(default["stateful"], "AWS::DynamoDB::Table").values()
    days = table["Properties"]["PointInTimeRecoverySpecification"]["RecoveryPeriodInDays"]
    assert any(rule.get("NoncurrentVersionExpiration") == {"NoncurrentDays": days} for rule in rules)
    (policy,) = (
        found
        for found in resources(default["stateful"], "AWS::S3::BucketPolicy").values()
        if found["Properties"]["Bucket"]["Ref"] == logical
    )
    denied = [s for s in policy["Properties"]["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
    assert any(s["Condition"] == {"Bool": {"aws:SecureTransport": "false"}} for s in denied)


def test_logs_end_some_day(default: Templates) -> None:
    for stack in FUNCTIONS:
        groups = resources(default[stack], "AWS::Logs::LogGroup")
        assert {group["Properties"]["RetentionInDays"] for group in groups.values()} == {30}
        functions = resources(default[stack], "AWS::Lambda::Function").values()
        named = [function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"] for function in functions]
        assert len(set(named)) == len(named)
        assert set(named) <= set(groups)


def test_nothing_runs_while_nobody_asks(default: Templates) -> None:
    kinds = {resource["Type"] for template in default.values() for resource in template["Resources"].values()}
    assert not [kind for kind in kinds if kind.startswith(("AWS::EC2", "AWS::EFS", "AWS::ECS", "AWS::RDS"))]
    assert not [
        f
        for stack in FUNCTIONS
        for f in resources(default[stack], "AWS::Lambda::Function").values()
        if "ReservedConcurrentExecutions" in f["Properties"]
    ]


def test_alarms_reach_somebody(default: Templates, full: Templates) -> None:
    alarms = resources(default["observability"], "AWS::CloudWatch::Alarm")
    assert all(alarm["Properties"]["AlarmActions"] for alarm in alarms.values())
    assert "on-call@example.org" in json.dumps(resources(full["observability"], "AWS::SNS::Subscription"))


def test_what_lands_reaches_the_function_or_is_kept(default: Templates, full: Templates) -> None:
    (landing,) = (
        bucket for name, bucket in resources(default["stateful"], "AWS::S3::Bucket").items() if "Landing" in name
    )
    told = landing["Properties"]["NotificationConfiguration"]["EventBridgeConfiguration"]
    assert told == {"EventBridgeEnabled": True}
    ingest = default["ingest"]
    rules = resources(ingest, "AWS::Events::Rule")
    (objects,) = (rule["Properties"] for name, rule in rules.items() if "Objects" in name)
    assert objects["EventPattern"]["detail-type"] == ["Object Created", "Object Deleted"]
    (target,) = objects["Targets"]
    queues = resources(ingest, "AWS::SQS::Queue")
    (events,) = (name for name in queues if name.startswith("Events"))
    (dead,) = (name for name in queues if name.startswith("DeadLetters"))
    assert target["Arn"]["Fn::GetAtt"][0] == events
    assert target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0] == dead
    properties = queues[events]["Properties"]
    assert properties["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0] == dead
    assert all(queue["Properties"]["SqsManagedSseEnabled"] for queue in queues.values())
    (mapping,) = resources(ingest, "AWS::Lambda::EventSourceMapping").values()
    assert mapping["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    named = [
        rule["Properties"]["EventPattern"]["detail"]["bucket"]["name"]
        for name, rule in resources(full["ingest"], "AWS::Events::Rule").items()
        if "Objects" in name
    ]
    assert len(named) == 2
    assert sorted(each for names in named for each in names if isinstance(each, str)) == sorted(
        ["third-bucket", *LONG_NAMES[:34]]
    )


def test_queues_keep_work_for_ten_days_and_what_was_given_up_for_four_more(default: Templates) -> None:
    for stack in ("api", "ingest"):
        days = {
            re.sub("[0-9A-F]{8}$", "", name): queue["Properties"]["MessageRetentionPeriod"] / 86_400
            for name, queue in resources(default[stack], "AWS::SQS::Queue").items()
        }
        assert sorted(days.values()) == [10, 14]
        assert days["DeadLetters"] == 14


def test_a_paused_deployment_works_on_nothing_and_answers_only_reads(
    default: Templates, full: Templates, crowded: Templates
) -> None:
    """Events still come into their queue, and wait."""
    for deployed, paused in ((default, False), (full, False), (crowded, True)):
        for template in deployed.values():
            for mapping in resources(template, "AWS::Lambda::EventSourceMapping").values():
                assert mapping["Properties"].get("Enabled", True) is not paused
            for rule in resources(template, "AWS::Events::Rule").values():
                properties = rule["Properties"]
                by_the_clock = "ScheduleExpression" in properties
                assert properties["State"] == ("DISABLED" if paused and by_the_clock else "ENABLED")
        answering_nothing = {
            re.sub("^Functions|[0-9A-F]{8}$", "", name)
            for template in deployed.values()
            for name, function in resources(template, "AWS::Lambda::Function").items()
            if "GRAVELER_PAUSED" in json.dumps(function["Properties"].get("Environment", {}))
        }
        assert answering_nothing == ({"Write", "Commit", "Merge", "Catalog"} if paused else set())
    clocks = [
        rule
        for template in crowded.values()
        for rule in resources(template, "AWS::Events::Rule").values()
        if "ScheduleExpression" in rule["Properties"]
    ]
    assert len(clocks) == 3  # the clean-up, commits of ingest, a Spark job


def test_long_operations_are_bounded_and_repeated(default: Templates) -> None:
    from infra.state_machine import definition

    operations = default["operations"]
    (machine,) = resources(operations, "AWS::StepFunctions::StateMachine").values()
    described = machine["Properties"]["DefinitionString"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else "REPLACED" for part in described)
    assert json.loads(text) == definition("REPLACED", at_once=40, partition="REPLACED")
    assert "null" not in text  # which the CDK would leave out
    (function,) = resources(operations, "AWS::Lambda::Function").values()
    tasks = list(_tasks(json.loads(text)["States"]))
    assert len(tasks) == 6
    for task in tasks:
        assert task["TimeoutSeconds"] > function["Properties"]["Timeout"]
        assert task["Retry"][-1]["ErrorEquals"] == ["States.ALL"]
        again = [rule for rule in task["Retry"] if rule["MaxAttempts"]]
        assert all(rule["JitterStrategy"] == "FULL" and rule["BackoffRate"] > 1 for rule in again)
    caught = [name for name, state in json.loads(text)["States"].items() if state.get("Catch")]
    assert caught == ["Plan", "Parts", "PartsApart", "Publish"]


def _tasks(states: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for state in states.values():
        if state["Type"] == "Task":
            yield state
        elif state["Type"] == "Map":
            yield from _tasks(state["ItemProcessor"]["States"])


def test_who_hands_over_may_start_executions_and_nothing_else_of_them(default: Templates) -> None:
    started = set()
    for stack in FUNCTIONS:
        for name, policy in resources(default[stack], "AWS::IAM::Policy").items():
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                if "states:" in json.dumps(statement["Action"]) and name.startswith("Functions"):
                    assert statement["Action"] == "states:StartExecution"
                    started.add(re.sub("Policy.*", "", name))
    assert started == {f"Functions{verb}" for verb in ("Write", "Commit", "Merge", "Maintain", "Ingest")}


def test_who_runs_checks_may_call_what_rules_may_name_and_nobody_else(
    default: Templates, adopted: Templates, other: Templates
) -> None:
    gated = {"Commit", "Merge", "Write", "Catalog", "Operate", "Ingest"}
    lambdas, secrets = set(CHECKS["lambdas"].values()), set(CHECKS["secrets"].values())
    assert named_rights(adopted, lambdas | secrets) == dict.fromkeys(lambdas | secrets, gated)
    assert named_rights(other, lambdas | secrets) == {
        **{arn: {"Check"} for arn in lambdas},
        **dict.fromkeys(secrets, gated),
    }
    assert check_documents(default) == {}
    assert {name: json.loads(str(text)) for name, text in check_documents(adopted).items()} == dict.fromkeys(
        gated, CHECKS
    )
    assert set(check_documents(other)) == {*gated, "Check"}


def test_one_function_gives_credentials_for_files_of_tables_where_that_is_asked_for(
    default: Templates, other: Templates, adopted: Templates
) -> None:
    assert "GRAVELER_TABLE_ROLE" not in json.dumps(default)
    for deployment in (other, adopted):
        api = deployment["api"]
        ((logical, role),) = (
            (name, each["Properties"])
            for name, each in resources(api, "AWS::IAM::Role").items()
            if name.startswith("TableCredentials")
        )
        (trusted,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trusted["Principal"]["AWS"]["Fn::GetAtt"][0].startswith("FunctionsCatalogRole")
        assert role["MaxSessionDuration"] == 3600
        knowing = {
            name: each["Properties"]["Environment"]["Variables"]["GRAVELER_TABLE_ROLE"]
            for name, each in resources(api, "AWS::Lambda::Function").items()
            if "GRAVELER_TABLE_ROLE" in each["Properties"].get("Environment", {}).get("Variables", {})
        }
        assert [name[: len("FunctionsCatalog")] for name in knowing] == ["FunctionsCatalog"]
        assert list(knowing.values()) == [{"Fn::GetAtt": [logical, "Arn"]}]
    foreign = {
        (action, resource["Fn::Join"][1][-1])
        for name, policy in resources(adopted["api"], "AWS::IAM::ManagedPolicy").items()
        if name.startswith("TableCredentials")
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
        for resource in (statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]])
    }
    assert foreign == {
        *(("s3:GetObject", f":s3:::{place}/*") for place in ("first-bucket", "shared-bucket/lake", "raw-bucket")),
        *(
            (f"s3:{action}", f":s3:::{place}/*/tables/*")
            for action in ("GetObject", "PutObject", "AbortMultipartUpload", "ListMultipartUploadParts")
            for place in ("first-bucket", "shared-bucket/lake")
        ),
    }


def named_rights(deployment: Templates, arns: set[str]) -> dict[str, set[str]]:
    """Which functions may do something with each of these, by ARN."""
    rights: dict[str, set[str]] = {}
    for template in deployment.values():
        for logical, policy in resources(template, "AWS::IAM::Policy").items():
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                named = [statement["Resource"]] if isinstance(statement["Resource"], str) else statement["Resource"]
                for arn in set(map(str, named)) & arns:
                    assert statement["Action"] in ("lambda:InvokeFunction", "secretsmanager:GetSecretValue")
                    rights.setdefault(arn, set()).add(logical.removeprefix("Functions").partition("Policy")[0])
    return rights


def check_documents(deployment: Templates) -> dict[str, object]:
    """The settings of checks of each function that has some."""
    return {
        logical.removeprefix("Functions").rstrip("0123456789ABCDEF"): text
        for template in deployment.values()
        for logical, function in resources(template, "AWS::Lambda::Function").items()
        if (text := function["Properties"].get("Environment", {}).get("Variables", {}).get("GRAVELER_CHECKS"))
    }


def test_the_function_of_checks_has_room_for_what_rules_may_ask(other: Templates) -> None:
    (function,) = resources(other["checks"], "AWS::Lambda::Function").values()
    settings = function["Properties"]
    assert (settings["Timeout"], settings["MemorySize"], settings["EphemeralStorage"]) == (900, 3008, {"Size": 2048})
    assert len(settings["Layers"]) == 2
    for template in (other["api"], other["operations"]):
        layers = {
            len(each["Properties"].get("Layers", ())) for each in resources(template, "AWS::Lambda::Function").values()
        }
        assert layers <= {0, 1}
    mib = 1 << 20
    write = str(check_documents(other)["Write"])
    assert str((3008 - 768) * mib) in write
    assert str((2048 - 768) * mib) in write


def test_spark_is_there_for_who_asks_and_stops_by_itself(default: Templates, full: Templates) -> None:
    assert "spark" not in default
    (application,) = resources(full["spark"], "AWS::EMRServerless::Application").values()
    properties = application["Properties"]
    assert properties["ReleaseLabel"] == "emr-spark-8.0.0"
    assert properties["AutoStopConfiguration"]["Enabled"] is True
    assert "InitialCapacity" not in properties  # which would be paid for while nothing runs
    assert properties["MaximumCapacity"] == {"Cpu": "16 vCPU", "Memory": "128 GB", "Disk": "800 GB"}
    assert properties["SchedulerConfiguration"] == {"MaxConcurrentRuns": 1, "QueueTimeoutMinutes": 60}


def test_a_job_may_do_what_jobs_do_and_write_nothing_that_is_ingested(full: Templates) -> None:
    spark = full["spark"]
    (policy,) = (p for name, p in resources(spark, "AWS::IAM::Policy").items() if name.startswith("JobPolicy"))
    for statement in (s for each in policies(spark) for s in each["Properties"]["PolicyDocument"]["Statement"]):
        text = json.dumps(statement["Resource"])
        if "third-bucket" in text or "Landing" in text:
            actions = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
            assert set(actions) <= {"s3:GetObject", "s3:ListBucket", "s3:ListBucketMultipartUploads"}
    (role,) = (r for name, r in resources(spark, "AWS::IAM::Role").items() if name.startswith("JobRole"))
    (trusted,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trusted["Principal"] == {"Service": "emr-serverless.amazonaws.com"}
    assert set(trusted["Condition"]) == {"StringEquals", "ArnLike"}
    keys = [
        (statement["Action"], statement["Resource"])
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Resource"] == KMS_KEY
    ]
    assert keys == [(["kms:Decrypt", "kms:GenerateDataKey"], KMS_KEY)]
    assert "glue:" not in json.dumps(policy)
    (passed,) = (
        statement
        for p in resources(spark, "AWS::IAM::Policy").values()
        for statement in p["Properties"]["PolicyDocument"]["Statement"]
        if statement["Action"] == "iam:PassRole"
    )
    assert passed["Condition"] == {"StringLike": {"iam:PassedToService": "emr-serverless.amazonaws.com"}}


def test_the_flow_waits_for_the_job_and_then_calls_the_api(full: Templates) -> None:
    spark = full["spark"]
    (machine,) = resources(spark, "AWS::StepFunctions::StateMachine").values()
    described = machine["Properties"]["DefinitionString"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else json.dumps(part).replace('"', "'") for part in described)
    assert "null" not in text
    states = json.loads(text)["States"]
    job = states["Job"]
    assert job["Resource"].endswith(":states:::emr-serverless:startJobRun.sync")
    submitted = job["Parameters"]["JobDriver"]["SparkSubmit"]
    assert submitted["EntryPoint.$"].startswith("States.Format('s3://")
    assert submitted["EntryPoint.$"].endswith("/jobs/{}.py', $.job)")
    given = dict(part.split("=", 1) for part in submitted["SparkSubmitParameters"].split("--conf ") if part)
    assert given["spark.emr-serverless.driverEnv.GRAVELER_LAKE"].startswith("dynamodb://")
    assert given["spark.emr-serverless.driverEnv.GRAVELER_OBJECTS"].startswith("s3://")
    assert given["spark.archives"].strip().endswith("/environment.tar.gz#environment")
    # No metastore, so no rights to one; and AWS's clients, in Java and in Python, know where they are.
    assert given["spark.sql.catalogImplementation"].strip() == "in-memory"
    for where in ("spark.emr-serverless.driverEnv", "spark.executorEnv"):
        assert {given[f"{where}.{name}"].strip() for name in ("AWS_REGION", "AWS_DEFAULT_REGION")} == {
            "{'Ref': 'AWS::Region'}"
        }
    size = {name.rpartition("executor.")[2]: given[name].strip() for name in given if "executor." in name}
    assert size == {"cores": "4", "memory": "14g", "disk": "20g"}
    assert not re.search("secret|password|key", submitted["SparkSubmitParameters"], re.IGNORECASE)
    assert job["Next"] == "Calls"
    call = states["Calls"]["ItemProcessor"]["States"]["Call"]
    assert call["Parameters"]["ApiEndpoint.$"].endswith("/api/v1{}', $.call.path)")
    assert "States.Http.StatusCode.429" in call["Retry"][0]["ErrorEquals"]
    rules = resources(spark, "AWS::Events::Rule")
    inputs = {
        rule["Properties"]["ScheduleExpression"]: json.loads(rule["Properties"]["Targets"][0]["Input"])
        for rule in rules.values()
    }
    assert inputs["cron(0 2 * * ? *)"] == {"job": "gc", "arguments": ["--repository", "sales"], "calls": []}
    assert inputs["rate(1 hour)"]["calls"][0]["path"] == "/repositories/sales/refs/feed/merge/main"


def test_jobs_of_the_flow_are_there() -> None:
    from tests.infra.conftest import SPARK_JOBS

    jobs = Path(__file__).resolve().parents[2] / "layers" / "graveler" / "python" / "graveler" / "spark" / "jobs"
    for job in SPARK_JOBS.values():
        assert (jobs / f"{job['job']}.py").exists()


def test_ingest_and_its_stack_mean_the_same() -> None:
    from graveler.functions import ingest_entry
    from graveler.ingest.ingester import CHUNK

    source = (Path(__file__).resolve().parents[2] / "infra" / "ingest.py").read_text()
    for name in ("OVERDUE", "PENDING", "UNREAD"):
        said = re.search(rf'^{name}: Final = "(.*)"$', source, re.MULTILINE)
        assert said is not None
        assert said[1] == getattr(ingest_entry, name)
    assert int(re.search(r"^BATCH: Final = (\d+)$", source, re.MULTILINE)[1]) % CHUNK == 0  # type: ignore[index]


def test_who_ingests_does_not_write_where_it_ingests_from(full: Templates) -> None:
    for stack in FUNCTIONS:
        for policy in policies(full[stack]):
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                if "third-bucket" in json.dumps(statement) or "Landing" in json.dumps(statement):
                    assert statement["Action"] in ("s3:GetObject", "s3:ListBucket"), statement


def test_ingest_can_be_left_out(tmp_path: Path) -> None:
    assert synthesise(tmp_path, ingest=False).returncode == 0
    assert set(templates(tmp_path)) == {"stateful", "operations", "api", "observability"}


def test_what_stacks_share_is_there_before_anybody_asks(default: Templates) -> None:
    """Whichever stack comes or goes: the others never have to be changed in the same step."""
    exported = {output["Export"]["Name"] for output in default["stateful"]["Outputs"].values() if output.get("Export")}
    assert len(exported) == 8


def test_templates_fit_any_account_and_region(default: Templates, full: Templates) -> None:
    for template in (*default.values(), *full.values()):
        own = json.dumps(template["Resources"])
        for arn in (CERTIFICATE, ENCRYPTION_KEY):
            own = own.replace(arn, "the user's")
        assert not re.search(r"arn:aws:|\b\d{12}\b|us-east-1", own)


def test_the_shared_cache_has_no_way_out(full: Templates) -> None:
    network = full["network"]
    assert not resources(network, "AWS::EC2::NatGateway")
    assert not resources(network, "AWS::EC2::InternetGateway")
    # What cannot be reached by a gateway has an endpoint in the network.
    reached = [
        endpoint["Properties"]["ServiceName"] for endpoint in resources(network, "AWS::EC2::VPCEndpoint").values()
    ]
    assert len(reached) == 4
    assert sum("states" in json.dumps(name) for name in reached) == 1
    mounted = [
        f for f in resources(full["api"], "AWS::Lambda::Function").values() if f["Properties"].get("FileSystemConfigs")
    ]
    assert len(mounted) == 5
    for function in mounted:
        variables = function["Properties"]["Environment"]["Variables"]
        assert variables["GRAVELER_CACHE"] == "/tmp/cache", "the shared cache stands behind a function's own"
        assert variables["GRAVELER_SHARED_CACHE"] == function["Properties"]["FileSystemConfigs"][0]["LocalMountPath"]


def test_the_function_that_logs_in_knows_the_names_that_clients_sign(default: Templates, full: Templates) -> None:
    assert "GRAVELER_AWS_LOGIN" not in json.dumps(default["api"])
    functions = resources(full["api"], "AWS::Lambda::Function")
    told = {
        name: each["Properties"]["Environment"]["Variables"].get("GRAVELER_AWS_LOGIN")
        for name, each in functions.items()
    }
    ((name, value),) = [(name, value) for name, value in told.items() if value]
    assert "FunctionsWrite" in name
    parts = value["Fn::Join"][1]
    assert full["api"]["Resources"][parts[0]["Ref"]]["Type"] == "AWS::ApiGatewayV2::Api"
    assert (parts[1], parts[-1]) == (".execute-api.", ",lake.example.org")


def test_pages_of_named_sites_may_send_and_read_all_headers(default: Templates, full: Templates) -> None:
    (gateway,) = resources(full["api"], "AWS::ApiGatewayV2::Api").values()
    cors = gateway["Properties"]["CorsConfiguration"]
    assert cors["AllowOrigins"] == ["https://example.org"]
    assert (cors["AllowMethods"], cors["AllowHeaders"], cors["ExposeHeaders"]) == (["*"], ["authorization", "*"], ["*"])
    buckets = resources(full["stateful"], "AWS::S3::Bucket").values()
    assert len(buckets) == 2
    for bucket in buckets:
        _, rule = bucket["Properties"]["CorsConfiguration"]["CorsRules"]
        assert rule["AllowedOrigins"] == ["https://example.org"]
        assert rule["AllowedHeaders"] == ["*"]  # Range, and conditions
        assert {"GET", "HEAD", "PUT"} == set(rule["AllowedMethods"])
        assert {"ETag", "Content-Range", "Accept-Ranges", "Content-Length"} <= set(rule["ExposedHeaders"])
    assert "CorsConfiguration" not in json.dumps(default["api"])


def test_the_deployments_own_page_may_use_presigned_urls(default: Templates, full: Templates, other: Templates) -> None:
    own_name = {"Fn::Join": ["", ["https://*.execute-api.", {"Ref": "AWS::Region"}, ".", {"Ref": "AWS::URLSuffix"}]]}
    domain = "https://lake.example.org"
    for stacks, origins in ((default, [own_name]), (full, [domain, own_name]), (other, [domain])):
        for bucket in resources(stacks["stateful"], "AWS::S3::Bucket").values():
            rule = bucket["Properties"]["CorsConfiguration"]["CorsRules"][0]
            assert rule["AllowedOrigins"] == origins
            assert rule["AllowedHeaders"] == ["range", "content-type", "content-md5", "x-amz-*"]
            assert {"GET", "HEAD", "PUT"} == set(rule["AllowedMethods"])
            assert {"ETag", "Content-Range", "Content-Length", "Accept-Ranges"} <= set(rule["ExposedHeaders"])


def test_a_domain_leads_to_the_api_and_outlives_it(default: Templates, full: Templates) -> None:
    told = full["api"]
    ((name, domain),) = resources(told, "AWS::ApiGatewayV2::DomainName").items()
    (configuration,) = domain["Properties"]["DomainNameConfigurations"]
    assert domain["Properties"]["DomainName"] == DOMAIN
    assert configuration["SecurityPolicy"] == "TLS_1_2"
    (mapping,) = resources(told, "AWS::ApiGatewayV2::ApiMapping").values()
    (api,) = resources(told, "AWS::ApiGatewayV2::Api")
    (stage,) = resources(told, "AWS::ApiGatewayV2::Stage")
    assert mapping["Properties"] == {"ApiId": {"Ref": api}, "DomainName": {"Ref": name}, "Stage": "$default"}
    assert stage in mapping["DependsOn"]
    records = [each["Properties"] for each in resources(told, "AWS::Route53::RecordSet").values()]
    assert {(each["Type"], each["Name"], each["HostedZoneId"]) for each in records} == {
        ("A", DOMAIN, "Z0EXAMPLE"),
        ("AAAA", DOMAIN, "Z0EXAMPLE"),
    }
    assert told["Outputs"]["Endpoint"]["Value"] == f"https://{DOMAIN}"
    assert told["Outputs"]["DomainTarget"]["Value"] == {"Fn::GetAtt": [name, "RegionalDomainName"]}
    assert f"https://{DOMAIN}" in json.dumps(full["spark"])
    assert not resources(default["api"], "AWS::ApiGatewayV2::DomainName")


def test_a_firewall_stands_before_a_cloudfront_that_keeps_files_of_the_page_and_passes_all_else_on(
    other: Templates,
) -> None:
    told = other["api"]
    ((name, distribution),) = resources(told, "AWS::CloudFront::Distribution").items()
    made = distribution["Properties"]["DistributionConfig"]
    assert (made["WebACLId"], made["Aliases"], made["HttpVersion"]) == (WEB_ACL, [DOMAIN], "http2and3")
    assert made["ViewerCertificate"]["AcmCertificateArn"] == EASTERN
    passed = made["DefaultCacheBehavior"]
    assert passed["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"  # CachingDisabled
    assert passed["OriginRequestPolicyId"] == "b689b0a8-53d0-40ab-baf2-68738e2966ac"  # AllViewerExceptHostHeader
    assert {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} <= set(passed["AllowedMethods"])
    assert (passed["Compress"], passed["ViewerProtocolPolicy"]) == (False, "https-only")
    (page,) = made["CacheBehaviors"]
    assert (page["PathPattern"], page["TargetOriginId"]) == ("/assets/*", passed["TargetOriginId"])
    assert page["CachePolicyId"] == "658327ea-f89d-4fab-a63d-7e88639e58f6"  # CachingOptimized: as Cache-Control says
    assert (page["Compress"], page["ViewerProtocolPolicy"]) == (False, "https-only")
    assert "OriginRequestPolicyId" not in page, "neither cookies nor keys go along"
    kept = {each["ErrorCode"]: each["ErrorCachingMinTTL"] for each in made["CustomErrorResponses"]}
    assert kept == dict.fromkeys((400, 403, 404, 405, 414, 500, 501, 502, 503, 504), 0)
    (origin,) = made["Origins"]
    (api,) = resources(told, "AWS::ApiGatewayV2::Api")
    assert {"Fn::GetAtt": [api, "ApiEndpoint"]} in origin["DomainName"]["Fn::Select"][1]["Fn::Split"]
    headers = {each["HeaderName"]: each["HeaderValue"] for each in origin["OriginCustomHeaders"]}
    assert headers.pop("X-Graveler-Front-Door")
    assert headers == {"X-Forwarded-Host": DOMAIN}
    target = {"Fn::GetAtt": [name, "DomainName"]}
    records = [each["Properties"]["AliasTarget"] for each in resources(told, "AWS::Route53::RecordSet").values()]
    assert records == [{"DNSName": target, "HostedZoneId": "Z2FDTNDATAQYW2"}] * 2
    assert told["Outputs"]["DomainTarget"]["Value"] == target
    assert told["Outputs"]["Endpoint"]["Value"] == f"https://{DOMAIN}"
    assert not resources(told, "AWS::ApiGatewayV2::DomainName")


def test_functions_know_what_cloudfront_sends_before_it_sends_it_and_what_it_sent_before(
    default: Templates, other: Templates
) -> None:
    told = other["api"]
    secrets = resources(told, "AWS::SecretsManager::Secret")
    assert sorted(re.sub("[0-9A-F]{8}$", "", name) for name in secrets) == ["FrontDoorKey1", "FrontDoorKey2"]
    for secret in secrets.values():
        assert secret["Properties"]["GenerateSecretString"] == {"ExcludePunctuation": True, "PasswordLength": 64}

    def references(value: dict[str, Any]) -> list[str]:
        separator, parts = value["Fn::Join"]
        text = separator.join(part if isinstance(part, str) else f"<{part['Ref']}>" for part in parts)
        found = re.findall(r"\{\{resolve:secretsmanager:<FrontDoorKey(\d)[0-9A-F]{8}>:SecretString:::?\}\}", text)
        assert text.count("resolve") == len(found), text
        return found

    ((name, distribution),) = resources(told, "AWS::CloudFront::Distribution").items()
    (origin,) = distribution["Properties"]["DistributionConfig"]["Origins"]
    (sent,) = (h["HeaderValue"] for h in origin["OriginCustomHeaders"] if h["HeaderName"] == "X-Graveler-Front-Door")
    assert references(sent) == ["2"]
    knowing = set()
    for logical, function in resources(told, "AWS::Lambda::Function").items():
        known = function["Properties"]["Environment"]["Variables"].get("GRAVELER_FRONT_DOOR")
        if known is not None:
            assert references(known) == ["2", "1"]
            knowing.add(logical)
    assert {re.sub("Functions|[0-9A-F]{8}$", "", each) for each in knowing} == {
        *("Read", "Write", "Commit", "Merge", "Catalog", "Diff")
    }
    live = {
        alias: each["Properties"]["FunctionName"]["Ref"]
        for alias, each in resources(told, "AWS::Lambda::Alias").items()
    }
    awaited = {live.get(each, each) for each in told["Resources"][name]["DependsOn"]}
    assert {each for each in awaited if each.startswith("Functions")} == knowing
    assert "GRAVELER_FRONT_DOOR" not in json.dumps(default)
    assert "FrontDoor" not in json.dumps(default)


def test_single_operations_may_have_lower_limits_once_their_routes_are_there(full: Templates) -> None:
    told = full["api"]
    (stage,) = resources(told, "AWS::ApiGatewayV2::Stage").values()
    limits = stage["Properties"]["RouteSettings"]
    assert limits == {
        "POST /api/v1/repositories": {"ThrottlingRateLimit": 1, "ThrottlingBurstLimit": 2},
        "POST /api/v1/repositories/{repository}/refs/{source}/merge/{destination}": {
            "ThrottlingRateLimit": 20,
            "ThrottlingBurstLimit": 40,
        },
        # A slash in the name of the source takes a merge past its route, and not past its limit.
        "POST /api/v1/repositories/{repository}/refs/{proxy+}": {"ThrottlingRateLimit": 20, "ThrottlingBurstLimit": 40},
    }
    routes = resources(told, "AWS::ApiGatewayV2::Route")
    named = {name for name, each in routes.items() if each["Properties"]["RouteKey"] in limits}
    assert len(named) == len(limits)
    assert named <= set(stage["DependsOn"])


def test_an_operation_that_is_none_has_no_limit(tmp_path: Path) -> None:
    done = synthesise(tmp_path, throttles=["mergeBranches=1/1"])
    assert done.returncode == 1
    assert "throttles: mergeBranches: no operation of the API" in done.stderr


def test_no_snapshot_is_asked_of_a_function_with_the_shared_cache(tmp_path: Path) -> None:
    done = synthesise(tmp_path, shared_cache=True, snap_start=["write", "merge"])
    assert done.returncode == 1
    assert "snap_start names merge, which has the shared cache" in done.stderr


def test_functions_start_as_the_settings_say(default: Templates, other: Templates) -> None:
    assert not any(resources(template, "AWS::Lambda::Version") for template in default.values())
    snapshots, ready = set(), {}
    for template in other.values():
        for name, function in resources(template, "AWS::Lambda::Function").items():
            if function["Properties"].get("SnapStart") == {"ApplyOn": "PublishedVersions"}:
                snapshots.add(re.sub(r"Functions([A-Z][a-z]+)[0-9A-F]{8}", r"\1", name))
        for name, alias in resources(template, "AWS::Lambda::Alias").items():
            told = alias["Properties"].get("ProvisionedConcurrencyConfig", {})
            ready[re.sub("Functions(.*)Live.*", r"\1", name)] = told.get("ProvisionedConcurrentExecutions")
    assert snapshots == {"Read", "Write", "Commit", "Merge", "Operate"}
    assert ready == {**dict.fromkeys(snapshots), "Diff": 2, "Maintain": 1, "Ingest": 3}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"architecture": "mips"}, "architecture 'mips' must be one of arm64, x86_64"),
        ({"memory": "lots"}, "memory 'lots' must be a whole number"),
        ({"memory": 2048.5}, "memory 2048.5 must be a whole number"),
        ({"memory": True}, "memory True must be a whole number"),
        ({"alarm_email": 5}, "alarm_email 5 must be a text"),
        ({"cors_origins": 5}, "cors_origins 5 must be a list of texts"),
        ({"cors_origins": [5]}, "cors_origins [5] must be a list of texts"),
        ({"tracing": "perhaps"}, "tracing 'perhaps' must be true or false"),
        ({"log_days": 31}, "log_days 31 must be one of 1, 3, 5"),
        ({"name": "Graveler!"}, "name 'Graveler!' must be"),
        ({"spark_jobs": "no json"}, "spark_jobs cannot be read"),
        ({"spark_jobs": {"a": {"schedule": "rate(1 hour)", "job": "gc"}}}, "spark_jobs are named, but spark is false"),
        ({"spark_jobs": {"a": {"schedule": "rate(1 hour)", "job": "gc", "argument": []}}}, "argument: unknown"),
        (
            {"spark_jobs": {"a": {"schedule": "rate(1 hour)", "job": "gc", "arguments": "--x"}}},
            "arguments and calls are",
        ),
        (
            {"spark": True, "spark_jobs": dict.fromkeys(("nightJob", "nightjob"), SPARK_JOBS["nightly"])},
            "spark_jobs: nightJob, nightjob must differ in more than capital letters",
        ),
        ({"spark": True, "spark_jobs": {"a": {"schedule": "daily", "job": "gc"}}}, "schedule 'daily' of a must be"),
        ({"spark": True, "spark_jobs": {"a b": {"schedule": "rate(1 hour)", "job": "gc"}}}, "name 'a b' must be"),
        ({"spark": True, "spark_jobs": {"a": {"schedule": "rate(1 hour)", "job": "../x"}}}, "job '../x' of a must be"),
        (
            {"spark": True, "spark_jobs": {"a": {"schedule": "rate(1 hour)", "job": "gc", "calls": [{}]}}},
            "a calls the API, but api_connection does not say",
        ),
        ({"api_connection": "graveler"}, "api_connection 'graveler' must be the ARN of a connection"),
        ({"spark_executor_cpus": 3}, "spark_executor_cpus 3 must be one of 1, 2, 4, 8, 16"),
        ({"spark_executor_memory": 28}, "spark_executor_memory 28 must be 1 to 27 with 4 processors"),
        ({"spark_executor_disk": 500}, "spark_executor_disk 500 must be 20 to 200"),
        ({"spark_executor_cpus": 16, "spark_cpus": 16}, "spark_cpus 16 must be 20 or more: each of 1 jobs needs 4"),
        ({"aws_login": "a b"}, "aws_login a b must be at most 4 names"),
        ({"aws_login": "a,b,c,d,e"}, "aws_login a, b, c, d, e must be at most 4 names"),
        (
            {"encryption_key": "alias/mine"},
            "encryption_key 'alias/mine' must be own, or the ARN of a key, not of an alias",
        ),
        ({"kms_keys": [KMS_KEY] * 21}, "kms_keys names more than 20 keys"),
        ({"kms_keys": "alias/mine"}, "kms_keys: 'alias/mine' must be the ARN of a key, not of an alias"),
        ({"data_buckets": "my-bucket/*"}, "data_buckets: 'my-bucket/*/' must be the name of a bucket, or of a folder"),
        ({"import_buckets": "s3://raw"}, "import_buckets: 's3://raw/' must be the name of a bucket, or of a folder"),
        ({"ingest_buckets": "raw/daily"}, "ingest_buckets: 'raw/daily/' must be a whole bucket"),
        ({"staging_shards": 65}, "staging_shards 65 must be 1 to 64"),
        ({"warm_writes": 3999}, "warm_writes 3999 must be 4,000 to 10,000,000, or 0"),
        ({"ingest": "false", "ingest_buckets": "raw"}, "ingest_buckets are named, but ingest is false"),
        (
            {"domain": "https://lake.example.org", "certificate": "x"},
            "domain 'https://lake.example.org' must be a host's",
        ),
        ({"domain": "lake.example.org"}, "certificate '' must be the ARN of the certificate for lake.example.org"),
        ({"domain": "a.example.org", "certificate": CERTIFICATE, "hosted_zone": "zone"}, "hosted_zone 'zone' must be"),
        ({"only_domain": "true"}, "only_domain is given, but no domain"),
        ({"web_acl": WEB_ACL}, "web_acl is given, but no domain"),
        ({"domain": DOMAIN, "certificate": CERTIFICATE, "web_acl": WEB_ACL}, "must be in us-east-1 with web_acl"),
        ({"domain": DOMAIN, "certificate": EASTERN, "web_acl": "mine"}, "web_acl 'mine' must be the ARN of a web ACL"),
        (
            {"domain": DOMAIN, "certificate": EASTERN, "web_acl": WEB_ACL, "only_domain": "true"},
            "only_domain and web_acl exclude each other",
        ),
        ({"snap_start": "setup"}, "snap_start: 'setup' must be one of read, write, commit"),
        ({"provisioned": "reed=1"}, "provisioned: 'reed' must be one of read, write, commit"),
        ({"provisioned": "read"}, "provisioned: 'read' must be function=processes"),
        ({"provisioned": "read=0"}, "provisioned: 'read=0' must be function=processes, one or more"),
        ({"provisioned": "read=1,read=2"}, "provisioned: 'read=2' must be function=processes, one or more, and each"),
        ({"provisioned": "read=1", "snap_start": "write,read"}, "snap_start and provisioned both name read;"),
        ({"snap_start": "read", "scratch": 1024}, "scratch 1024 must be 512 with snap_start"),
        (
            {"provisioned": "read=11", "reserved_concurrency": 10},
            "read=11 must not be more than reserved_concurrency, 10",
        ),
        ({"reserved_concurrency": 4}, "reserved_concurrency 4 must be 0, or at least 5: as many batches of its queue"),
        ({"reserved_concurrency": 1, "ingest": "false"}, "reserved_concurrency 1 must be 0, or at least 2"),
        ({"front_door_key": 2}, "front_door_key is given, but no web_acl"),
        ({"throttles": "merge"}, "throttles: 'merge' must be operation=rate/burst"),
        (
            {"throttles": "commit=1/1,commit=2/2"},
            "throttles: 'commit=2/2' must be operation=rate/burst, and each operation",
        ),
        ({"throttles": "commit=2000/1"}, "throttles: 'commit=2000/1' must be 1/1 to 1000/2000"),
        ({"checks": "dbt"}, "checks cannot be read: Expecting value"),
        ({"checks": "[]"}, "checks cannot be read: it must be an object of JSON"),
        ({"checks": {"commands": {"dbt": ["dbt"]}}}, "checks cannot be read: a function runs no commands"),
        (
            {"checks": {"lambda": {}}},
            "checks cannot be read: lambda: unknown; known are lambdas, secrets, private_hosts",
        ),
        ({"checks": {"lambdas": ["quality"]}}, "checks cannot be read: lambdas must be ARNs by name"),
        ({"checks": {"private_hosts": "host"}}, "checks cannot be read: private_hosts must be a list of hosts"),
        (
            {"checks": {"lambdas": {"quality": "quality"}}},
            "checks: lambdas: 'quality' 'quality' must be the ARN of a function",
        ),
        ({"checks": {"lambdas": {"a b": "x"}}}, "checks: lambdas: the name 'a b' must be 1 to 64 letters"),
        ({"checks": {"secrets": {"hooks": "s3cret"}}}, "checks: secrets: 'hooks' must be the whole ARN of a secret"),
        ({"checks": {"private_hosts": ["http://x"]}}, "checks: private_hosts: 'http://x' must be a host, or host:port"),
        ({"checks": {"private_hosts": ["x"]}, "shared_cache": "true"}, "checks and shared_cache exclude each other"),
        (
            {"table_credentials": "true", "shared_cache": "true"},
            "table_credentials and shared_cache exclude each other",
        ),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings: dict[str, Any], said: str) -> None:
    from infra.settings import SettingsError
    from infra.settings_files import read_settings

    with pytest.raises(SettingsError, match=re.escape(said)):
        read_settings({f"graveler:{name}": value for name, value in settings.items()}.get)


def test_places_may_be_written_with_and_without_slashes() -> None:
    from infra.settings_files import read_settings

    settings = read_settings({"graveler:data_buckets": "one/,two/a", "graveler:import_buckets": ["two/b/c/"]}.get)
    assert settings.data_buckets == ("one", "two/a/")
    assert settings.import_buckets == ("two/b/c/",)


def test_a_budget_is_a_stack_of_its_own_for_who_asks_and_counts_the_deployment_alone(full: Any, default: Any) -> None:
    assert "budget" not in default
    assert not resources(full["observability"], "AWS::Budgets::Budget")
    (budget,) = (each["Properties"] for each in resources(full["budget"], "AWS::Budgets::Budget").values())
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 50, "Unit": "USD"}
    assert budget["Budget"]["FilterExpression"] == {
        "Tags": {"Key": "graveler", "MatchOptions": ["EQUALS"], "Values": ["graveler"]}
    }
    for notification in budget["NotificationsWithSubscribers"]:
        (subscriber,) = notification["Subscribers"]
        assert subscriber["Address"]["Fn::ImportValue"].startswith("graveler-observability:")


def test_what_is_deployed_by_default_is_known_to_cloudformation_in_each_region(default: Templates) -> None:
    """As cfn-lint knows them; a budget is what CloudFormation has no type for in some (``eu-central-2``)."""
    kinds = {each["Type"] for template in default.values() for each in template["Resources"].values()}
    (folder,) = PYTHON.parents[1].glob("lib/python3.*/site-packages/cfnlint/data/schemas/providers")
    regions = {file.stem: set(json.loads(file.read_text())) for file in folder.glob("*-*-*.json")}
    assert len(regions) > 30
    assert "AWS::Budgets::Budget" not in regions["eu-central-2"]
    custom = {kind for kind in kinds if kind.startswith("Custom::")}
    assert {region: missing for region, known in regions.items() if (missing := kinds - custom - known)} == {}


def test_warm_throughput_is_the_tables(full: Any, default: Any) -> None:
    (table,) = resources(full["stateful"], "AWS::DynamoDB::Table").values()
    assert table["Properties"]["WarmThroughput"] == {"WriteUnitsPerSecond": 10_000}
    (table,) = resources(default["stateful"], "AWS::DynamoDB::Table").values()
    assert "WarmThroughput" not in table["Properties"]


def test_a_setting_without_a_value_is_refused_and_spaces_of_lists_do_not_count() -> None:
    from infra.settings import SettingsError
    from infra.settings_files import read_settings

    for name in ("alarm_email", "memory", "cors_origins", "spark", "spark_jobs"):
        with pytest.raises(SettingsError, match=f"{name} null: leave the setting out"):
            read_settings(dict[str, Any]().get, {name: None})
    assert read_settings({"graveler:cors_origins": "https://a.example, https://b.example,"}.get).cors_origins == (
        "https://a.example",
        "https://b.example",
    )


def test_what_is_in_another_region_is_refused() -> None:
    from infra.settings import Settings, SettingsError

    east: dict[str, Any] = {
        "table": "lake",
        "sealing_key": "arn:aws:kms:us-east-1:111122223333:key/1",
        "first_key": "arn:aws:secretsmanager:us-east-1:111122223333:secret:Key-AbCdEf",
        "encryption_key": "arn:aws:kms:us-east-1:111122223333:key/2",
        "former_encryption_keys": ("own", "arn:aws:kms:us-east-1:111122223333:key/3"),
        "kms_keys": ("arn:aws:kms:us-east-1:111122223333:key/4",),
        "api_connection": "arn:aws:events:us-east-1:111122223333:connection/graveler/id",
        "domain": DOMAIN,
        "certificate": EASTERN,
    }
    Settings(**east).check_region("us-east-1")
    for names in (
        ("table", "sealing_key"), ("encryption_key",), ("former_encryption_keys",), ("kms_keys",), ("api_connection",),
        ("domain", "certificate"),
    ):  # fmt: skip
        with pytest.raises(SettingsError, match=f"{names[-1]} 'arn.*' must be in eu-central-1, the region of the"):
            Settings(**{name: east[name] for name in names}).check_region("eu-central-1")
    behind = {name: east[name] for name in ("domain", "certificate")} | {"web_acl": WEB_ACL, "encryption_key": "own"}
    Settings(**behind).check_region("eu-central-1")


def test_an_unknown_setting_is_named() -> None:
    from infra.settings import SettingsError
    from infra.settings_files import read_settings

    with pytest.raises(SettingsError, match="memry: unknown; known are name, architecture"):
        read_settings({"graveler": {"memry": 1}}.get)


def test_the_cdk_does_what_it_recommends_for_new_apps(default_assembly: Path) -> None:
    """With two exceptions. Strong references keep a stack from being deleted before those that use it, and the emulator, as
    older tools, knows no others. Other names for mount targets would need a second one where only one may be, when a deployment
    with the shared cache is updated."""
    artifacts = json.loads((default_assembly / "manifest.json").read_text())["artifacts"]
    flags = artifacts["aws-cdk-lib/feature-flag-report"]["properties"]["flags"]
    assert len(flags) > 100
    values = {
        name: flag["userValue"] if "userValue" in flag else flag.get("unconfiguredBehavesLike", {}).get("v2", False)
        for name, flag in flags.items()
    }
    assert {name: value for name, value in values.items() if value != flags[name]["recommendedValue"]} == {
        "@aws-cdk/core:defaultCrossStackReferences": "strong",
        "@aws-cdk/aws-efs:mountTargetOrderInsensitiveLogicalId": False,
    }
    assert set(feature_flags()) <= set(flags)


def test_cdk_json_holds_the_defaults() -> None:
    from infra.settings import Settings
    from infra.settings_files import read_settings

    context = json.loads((Path(__file__).resolve().parents[2] / "cdk.json").read_text())["context"]
    assert read_settings(context.get) == Settings()
    assert set(context["graveler"]) == set(Settings.__dataclass_fields__)
