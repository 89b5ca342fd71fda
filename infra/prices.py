"""What AWS asks for what graveler uses: list prices of us-east-1, in US dollars. Look them up again before a decision."""

from typing import Final

DATE: Final = "2025-12"
"""When the prices were current."""

READ_UNIT: Final = 0.125e-6
"""DynamoDB, on demand: one consistent read of up to 4 KB."""
WRITE_UNIT: Final = 0.625e-6
"""DynamoDB, on demand: one write of up to 1 KB; in a transaction two of them."""
TABLE_GB_MONTH: Final = 0.25
RESTORE_GB_MONTH: Final = 0.20
"""Point-in-time recovery of the table."""

S3_GET: Final = 0.4e-6
S3_PUT: Final = 5e-6
"""Also listings."""
S3_GB_MONTH: Final = 0.023

HTTP_REQUEST: Final = 1.0e-6
HTTP_METERED: Final = 512 << 10
"""API Gateway's HTTP APIs: a request counts once for each 512 KB of it, or of its answer if that is larger."""
INVOCATION: Final = 0.2e-6
GB_SECOND: Final = 13.3334e-6
"""Lambda on arm64."""
SNAPSHOT_GB_SECOND: Final = 1.5046e-6
RESTORED_GB: Final = 139.7998e-6
"""Lambda's SnapStart of Python: a snapshot, by the memory of its function, and each start from it."""
READY_GB_SECOND: Final = 3.3334e-6
READY_RUN_GB_SECOND: Final = 7.7778e-6
"""Lambda's provisioned concurrency on arm64: a process that is kept ready, and what it then runs, instead of
:data:`GB_SECOND`."""
SCRATCH_GB_SECOND: Final = 30.9e-9
"""Lambda: ``/tmp`` beyond the first 512 MiB."""
LOG_GB: Final = 0.5

TRANSITION: Final = 25e-6
"""Step Functions, standard: one change of an execution's state."""
OBJECT_EVENT: Final = 1.0e-6
"""EventBridge: one event of S3, which a bucket's owner has to ask for. What rules hand on by the clock is free."""
QUEUE_REQUEST: Final = 0.4e-6
"""SQS, standard: a message sent, or up to ten received or deleted together."""

ALARM_MONTH: Final = 0.10
METRIC_MONTH: Final = 0.30
"""CloudWatch: one figure of one function; by the hour in which it is told."""
DASHBOARD_MONTH: Final = 3.0

SHARED_GB_MONTH: Final = 0.30
"""EFS, standard."""
SHARED_READ_GB: Final = 0.03
SHARED_WRITE_GB: Final = 0.06
"""EFS, elastic throughput."""
GATEWAY_ENDPOINT_MONTH: Final = 0.0
"""How functions in a network reach S3 and DynamoDB."""
INTERFACE_ENDPOINT_HOUR: Final = 0.01
"""In one zone; how functions in a network start executions, and have keys unwrapped."""

KMS_KEY_MONTH: Final = 1.0
KMS_REQUEST: Final = 3e-6
"""KMS: a key, and a request to it."""
SECRET_MONTH: Final = 0.40
"""Secrets Manager: a secret."""

JOB_CPU_HOUR: Final = 0.042094
JOB_GB_HOUR: Final = 0.004628
"""EMR Serverless on arm64: a virtual processor, and memory; by the second, from one minute on."""
