"""By option: Spark jobs on EMR Serverless, and a flow that runs one and then calls the API.

Nothing runs while there is no job: the application starts with the first one and stops when it has been idle.
"""

from typing import Any, Final

from aws_cdk import ArnFormat, CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as states
from constructs import Construct

from infra.acknowledged import acknowledge, acknowledge_wildcards
from infra.buckets import private_bucket
from infra.emr import GB_PER_CPU, QUEUE_MINUTES, allocation, disk
from infra.encryption import DECRYPT, former_keys, key_in, through
from infra.execution_log import execution_log, log_rights, trace_rights
from infra.foreign_buckets import ForeignBuckets
from infra.foreign_places import Rights
from infra.functions import READ_OBJECTS, USE_KEY, WRITE_OBJECTS
from infra.job_flow import flow
from infra.settings import Settings
from infra.spark_files import SparkFiles
from infra.stateful import lake_table
from infra.table_rights import WRITE_TABLE, KeyRights, table_rights

IDLE_MINUTES: Final = 5
LOGS: Final = "logs"

_DELETE: Final = ("s3:DeleteObject", "s3:AbortMultipartUpload")
_LIST: Final = ("s3:ListBucket", "s3:ListBucketMultipartUploads")


class SparkStack(Stack):
    """Application, bucket of what jobs need and say, their role, the flow, its schedules. Nothing in it is worth keeping."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        bucket: s3.IBucket,
        table: dynamodb.ITable,
        landing: s3.IBucket,
        encryption_key: kms.IKey | None,
        endpoint: str,
    ) -> None:
        super().__init__(scope, name, description="graveler: Spark jobs")
        table = lake_table(self, settings, table)
        self._settings = settings
        self._key = key_in(self, encryption_key)
        self.artifacts = private_bucket(
            self,
            "Artifacts",
            removal=RemovalPolicy.DESTROY,
            keep_deleted=Duration.days(7),
            expire={f"{LOGS}/": Duration.days(settings.log_days)},
            emptied=True,
            key=self._key,
        )
        self.application = self._application()
        self._files = SparkFiles(
            self, "Files", settings, artifacts=self.artifacts, application=self.application, key=self._key
        )
        self.job_role = self._job_role(bucket, table, landing)
        self.flow = self._flow(bucket, table, endpoint)
        CfnOutput(self, "SparkArtifacts", value=self.artifacts.bucket_name)
        CfnOutput(self, "SparkApplication", value=self.application.attr_application_id)
        CfnOutput(self, "SparkJobRole", value=self.job_role.role_arn)
        CfnOutput(self, "SparkFlow", value=self.flow.state_machine_arn)

    def _application(self) -> emr.CfnApplication:
        cpus = self._settings.spark_cpus
        return emr.CfnApplication(
            self,
            "Application",
            type="Spark",
            name=f"{self._settings.name}-jobs",
            release_label=self._settings.spark_release,
            architecture="ARM64" if self._settings.architecture == "arm64" else "X86_64",
            auto_start_configuration=emr.CfnApplication.AutoStartConfigurationProperty(enabled=True),
            auto_stop_configuration=emr.CfnApplication.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=IDLE_MINUTES
            ),
            # A job that finds no processors left fails; one that waits for its turn does not.
            scheduler_configuration=emr.CfnApplication.SchedulerConfigurationProperty(
                max_concurrent_runs=self._settings.spark_jobs_at_once, queue_timeout_minutes=QUEUE_MINUTES
            ),
            maximum_capacity=emr.CfnApplication.MaximumAllowedResourcesProperty(
                cpu=f"{cpus} vCPU",
                memory=f"{cpus * GB_PER_CPU} GB",
                disk=f"{disk(cpus, self._settings.spark_executor_cpus, self._settings.spark_executor_disk)} GB",
            ),
        )

    def _job_role(self, bucket: s3.IBucket, table: dynamodb.ITable, landing: s3.IBucket) -> iam.Role:
        settings = self._settings
        role = iam.Role(
            self,
            "JobRole",
            description="graveler: Spark jobs",
            managed_policies=ForeignBuckets(self, "Buckets").policies(
                Rights(settings.data_buckets, (*WRITE_OBJECTS, *_DELETE), _LIST),
                Rights((*settings.import_buckets, *settings.ingest_buckets), READ_OBJECTS, _LIST),
            ),
            assumed_by=iam.ServicePrincipal(
                "emr-serverless.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": self.account},
                    "ArnLike": {"aws:SourceArn": self.application.attr_arn},
                },
            ),
        )
        own, read, artifacts = bucket.bucket_arn, landing.bucket_arn, self.artifacts.bucket_arn
        rights = [
            *table_rights(table.table_arn, WRITE_TABLE, KeyRights.NONE),
            iam.PolicyStatement(actions=[*WRITE_OBJECTS, *_DELETE], resources=[f"{own}/*"]),
            iam.PolicyStatement(actions=list(READ_OBJECTS), resources=[f"{read}/*", f"{artifacts}/*"]),
            iam.PolicyStatement(actions=["s3:PutObject"], resources=[f"{artifacts}/{LOGS}/*"]),
            iam.PolicyStatement(actions=list(_LIST), resources=[own, read, artifacts]),
        ]
        if settings.kms_keys:
            rights.append(iam.PolicyStatement(actions=list(USE_KEY), resources=list(settings.kms_keys)))
        if self._key is not None:
            rights += [
                through(self._key.key_arn, self, DECRYPT, ["s3", "dynamodb"]),
                through(self._key.key_arn, self, ["kms:GenerateDataKey"], ["s3"]),
            ]
        rights += [through(key, self, DECRYPT, ["s3", "dynamodb"]) for key in former_keys(settings)]
        policy = iam.Policy(self, "JobPolicy", roles=[role], statements=rights)
        acknowledge_wildcards(policy, rights, "Keys are chosen by repositories and jobs.", shared=(bucket, landing))
        role.node.add_dependency(self.application)
        return role

    def _flow(self, bucket: s3.IBucket, table: dynamodb.ITable, endpoint: str) -> states.StateMachine:
        settings = self._settings
        role = iam.Role(
            self,
            "FlowRole",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
            description="graveler: runs Spark jobs and calls the API",
        )
        runs = f"{self.application.attr_arn}/jobruns/*"
        statements = [
            iam.PolicyStatement(actions=["emr-serverless:StartJobRun"], resources=[self.application.attr_arn]),
            iam.PolicyStatement(actions=["emr-serverless:GetJobRun", "emr-serverless:CancelJobRun"], resources=[runs]),
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=[self.job_role.role_arn],
                conditions={"StringLike": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
            ),
            # How Step Functions hears of the end of a job that it waits for.
            iam.PolicyStatement(
                actions=["events:PutTargets", "events:PutRule", "events:DescribeRule"],
                resources=[
                    self.format_arn(
                        service="events",
                        resource="rule",
                        resource_name="StepFunctionsGetEventsForEMRServerlessJobRule",
                        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
                    )
                ],
            ),
            log_rights(),
            *trace_rights(settings),
        ]
        if settings.api_connection:
            statements += self._calls(endpoint)
        policy = iam.Policy(self, "FlowPolicy", roles=[role], statements=statements)
        acknowledge_wildcards(policy, statements, "Runs and secrets have names of their own, traces have none.")
        machine = states.StateMachine(
            self,
            "Flow",
            definition_body=states.DefinitionBody.from_string(
                self.to_json_string(self._definition(bucket, table, endpoint))
            ),
            role=role.without_policy_updates(),
            logs=execution_log(self, "FlowLog", settings),
            tracing_enabled=settings.tracing,
            comment="graveler: a Spark job, and calls of the API when it is done",
        )
        machine.node.add_dependency(policy)
        machine.node.add_dependency(self._files)  # and so it is deleted before the application is stopped
        acknowledge(machine, "AwsSolutions-SF2", "By setting: tracing costs for each step.")
        self._schedule(machine)
        return machine

    def _definition(self, bucket: s3.IBucket, table: dynamodb.ITable, endpoint: str) -> dict[str, Any]:
        settings = self._settings
        return flow(
            application=self.application.attr_application_id,
            role=self.job_role.role_arn,
            artifacts=f"s3://{self.artifacts.bucket_name}",
            environment={
                "GRAVELER_LAKE": f"dynamodb://{table.table_name}",
                "GRAVELER_OBJECTS": f"s3://{bucket.bucket_name}",
            },
            region=self.region,
            conf={
                **allocation(settings.spark_cpus, settings.spark_jobs_at_once, settings.spark_executor_cpus),
                "spark.executor.cores": str(settings.spark_executor_cpus),
                "spark.executor.memory": f"{settings.spark_executor_memory}g",
                "spark.emr-serverless.executor.disk": f"{settings.spark_executor_disk}g",
            },
            endpoint=endpoint if settings.api_connection else "",
            connection=settings.api_connection,
            partition=self.partition,
        )

    def _calls(self, endpoint: str) -> list[iam.PolicyStatement]:
        """The rights to call the API by the connection. EventBridge keeps its credentials in a secret below the connection's
        name, which no other connection of the account and region has; what follows is an ID of the secret's own, not the
        connection's: https://docs.aws.amazon.com/step-functions/latest/dg/call-https-apis.html#connect-http-task-permissions"""
        connection = self._settings.api_connection
        secret = self.format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"events!connection/{connection.split('/')[1]}/*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        machines = self.format_arn(
            service="states", resource="stateMachine", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
        )
        return [
            iam.PolicyStatement(
                actions=["states:InvokeHTTPEndpoint"],
                resources=[machines],
                conditions={"StringLike": {"states:HTTPEndpoint": f"{endpoint}/api/v1/*"}},
            ),
            iam.PolicyStatement(actions=["events:RetrieveConnectionCredentials"], resources=[connection]),
            iam.PolicyStatement(
                actions=["secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"], resources=[secret]
            ),
        ]

    def _schedule(self, machine: states.StateMachine) -> None:
        for name, job in self._settings.spark_jobs.items():
            events.Rule(
                self,
                f"Job{name.capitalize()}",
                description=f"graveler: Spark job {name}",
                schedule=events.Schedule.expression(job.schedule),
                enabled=not self._settings.paused,
                targets=[
                    targets.SfnStateMachine(
                        machine,
                        input=events.RuleTargetInput.from_object(
                            {"job": job.job, "arguments": list(job.arguments), "calls": list(job.calls)}
                        ),
                        retry_attempts=2,
                        max_event_age=Duration.hours(1),
                    )
                ],
            )
