"""The flow of a Spark job, in Amazon's States Language: run it, wait for its end, call the API.

Its input says which job, with which arguments, and what to call afterwards::

    {"job": "import_", "arguments": ["--repository", "sales", "--branch", "feed", "--prefix", "s3://bucket/tables/"],
     "calls": [{"method": "POST", "path": "/repositories/sales/refs/feed/merge/main", "body": {"message": "Nightly"}}]}

A call is repeated if its answer is lost, so each has an ``Idempotency-Key`` of its own: the API then takes a POST once, and gives
the first answer again. A DELETE that finds nothing is done: what it was to delete is gone, perhaps by the first of its requests.

Nothing here knows the CDK. It holds no null: the CDK would leave the field out.
"""

from collections.abc import Mapping
from typing import Any, Final

from infra.emr import QUEUE_MINUTES

JOB_SECONDS: Final = 12 * 3600
"""Half the grace: what a job publishes later is refused."""

ARCHIVE: Final = "environment.tar.gz"
"""What the package's archive is called in the bucket of artifacts."""
JOBS: Final = "jobs"
"""The folder of the jobs' entry points there."""

FINAL_CODES: Final = (2, 3, 4, 5, 6, 8, 10)
"""Exit codes of a job that would fail again: wrong usage or input, not found, conflict, not ready, not allowed, damaged, made by
a later version. EMR Serverless tells the code in the failed run's StateDetails, as "ExitCode: 2." What tells none is tried
again."""
ATTEMPTS: Final = 3
"""How often a job is run at most."""

CALL_KEY: Final = "States.Hash(States.Format('{} {} {}', $$.Execution.Id, $$.Execution.StartTime, $.number), 'SHA-256')"
"""The ``Idempotency-Key`` of a call: the same for each of its repetitions, also after the execution is redriven, and for no other
call. An execution's name alone may come again, and may hold characters that no header can:
https://docs.aws.amazon.com/step-functions/latest/dg/input-output-contextobject.html"""

STATUS: Final = "States.Http.StatusCode."
"""Begins the name of the error of an answer that is none of success: its status follows. Names are compared as a whole, so there
is no wildcard for several of them: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html"""

CATALOG: Final = {"spark.sql.catalogImplementation": "in-memory"}
"""Jobs use no tables by name, so they need no metastore, and their role no right to AWS Glue's:
https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/metastore-config.html"""

_PYTHON: Final = "./environment/bin/python"
_EVERYWHERE: Final = ("spark.emr-serverless.driverEnv", "spark.executorEnv")
_REGION: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""Java's clients read the first, Python's the second."""


def flow(
    *,
    application: str,
    role: str,
    artifacts: str,
    environment: Mapping[str, str],
    region: str,
    conf: Mapping[str, str],
    endpoint: str = "",
    connection: str = "",
    partition: str = "aws",
) -> dict[str, Any]:
    """The definition. ``artifacts`` is the URL of the bucket with :data:`ARCHIVE` and ``jobs/<job>.py``; ``environment``
    is what the jobs' drivers find in their environment; ``region`` is where drivers and executors look for AWS; ``conf`` are
    Spark's settings besides. With an ``endpoint`` of the API, it is called by the ``connection``. No secret stands in it: who
    may describe the flow, or a run, reads all of this."""
    driver = {
        **conf,
        **CATALOG,
        "spark.archives": f"{artifacts}/{ARCHIVE}#environment",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": _PYTHON,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": _PYTHON,
        "spark.executorEnv.PYSPARK_PYTHON": _PYTHON,
        **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in environment.items()},
        **{f"{where}.{name}": region for where in _EVERYWHERE for name in _REGION},
    }
    states: dict[str, Any] = {
        "Begin": {
            "Type": "Pass",
            "Result": {"left": ATTEMPTS - 1, "pause": 60},
            "ResultPath": "$.attempts",
            "Next": "Job",
        },
        "Job": {
            "Type": "Task",
            "Resource": f"arn:{partition}:states:::emr-serverless:startJobRun.sync",
            "Parameters": {
                "ApplicationId": application,
                "ExecutionRoleArn": role,
                "Name.$": "$.job",
                "ExecutionTimeoutMinutes": JOB_SECONDS // 60,
                "JobDriver": {
                    "SparkSubmit": {
                        "EntryPoint.$": f"States.Format('{artifacts}/{JOBS}/{{}}.py', $.job)",
                        "EntryPointArguments.$": "$.arguments",
                        "SparkSubmitParameters": " ".join(f"--conf {name}={value}" for name, value in driver.items()),
                    }
                },
                "ConfigurationOverrides": {
                    "MonitoringConfiguration": {"S3MonitoringConfiguration": {"LogUri": f"{artifacts}/logs/"}}
                },
            },
            "ResultPath": "$.run",
            "TimeoutSeconds": JOB_SECONDS + QUEUE_MINUTES * 60 + 600,
            # A retry of the state itself could not tell why the job failed: that stands in the cause alone.
            "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.failure", "Next": "Failed"}],
            **({"Next": "Calls"} if endpoint else {"End": True}),
        },
        "Failed": {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.attempts.left", "NumericLessThanEquals": 0, "Next": "GivenUp"},
                {"Variable": "$.failure.Cause", "IsPresent": False, "Next": "Pause"},  # as of a state that timed out
                *(
                    {"Variable": "$.failure.Cause", "StringMatches": f"*ExitCode: {code}.*", "Next": "GivenUp"}
                    for code in FINAL_CODES
                ),
            ],
            "Default": "Pause",
        },
        "GivenUp": {"Type": "Fail", "ErrorPath": "$.failure.Error", "CausePath": "States.JsonToString($.failure)"},
        "Pause": {"Type": "Wait", "SecondsPath": "$.attempts.pause", "Next": "Again"},
        # Jobs go on where they were.
        "Again": {
            "Type": "Pass",
            "Parameters": {
                "left.$": "States.MathAdd($.attempts.left, -1)",
                "pause.$": "States.MathAdd($.attempts.pause, 60)",
            },
            "ResultPath": "$.attempts",
            "Next": "Job",
        },
    }
    if endpoint:
        states["Calls"] = {
            "Type": "Map",
            "ItemsPath": "$.calls",
            "ItemSelector": {"call.$": "$$.Map.Item.Value", "number.$": "$$.Map.Item.Index"},
            "MaxConcurrency": 1,
            "ItemProcessor": {
                "ProcessorConfig": {"Mode": "INLINE"},
                "StartAt": "Call",
                "States": {
                    "Call": {
                        "Type": "Task",
                        "Resource": f"arn:{partition}:states:::http:invoke",
                        "Parameters": {
                            "ApiEndpoint.$": f"States.Format('{endpoint}/api/v1{{}}', $.call.path)",
                            "Method.$": "$.call.method",
                            "Headers": {"Idempotency-Key.$": CALL_KEY},
                            "RequestBody.$": "$.call.body",
                            "Authentication": {"ConnectionArn": connection},
                        },
                        "ResultSelector": {"status.$": "$.StatusCode"},
                        "TimeoutSeconds": 60,
                        # 429: it goes on as a long operation, and the same request joins it.
                        "Retry": [
                            {
                                "ErrorEquals": [f"{STATUS}429", f"{STATUS}503"],
                                "IntervalSeconds": 5,
                                "BackoffRate": 1.5,
                                "MaxDelaySeconds": 60,
                                "MaxAttempts": 99,
                                "JitterStrategy": "FULL",
                            },
                            {
                                "ErrorEquals": [
                                    "States.Timeout",
                                    "States.Http.Socket",
                                    *(f"{STATUS}{status}" for status in range(500, 600) if status != 503),
                                ],
                                "IntervalSeconds": 5,
                                "BackoffRate": 2,
                                "MaxDelaySeconds": 60,
                                "MaxAttempts": 10,
                                "JitterStrategy": "FULL",
                            },
                        ],
                        "Catch": [{"ErrorEquals": [f"{STATUS}404"], "ResultPath": "$.failure", "Next": "NotFound"}],
                        "End": True,
                    },
                    "NotFound": {
                        "Type": "Choice",
                        "Choices": [{"Variable": "$.call.method", "StringEquals": "DELETE", "Next": "Deleted"}],
                        "Default": "Refused",
                    },
                    "Deleted": {"Type": "Pass", "Result": {"status": 404}, "End": True},
                    "Refused": {
                        "Type": "Fail",
                        "ErrorPath": "$.failure.Error",
                        "CausePath": "States.JsonToString($.failure)",
                    },
                },
            },
            "End": True,
        }
    return {
        "Comment": "A Spark job of graveler, and calls of its API",
        "StartAt": "Begin",
        "TimeoutSeconds": 24 * 3600,
        "States": states,
    }
