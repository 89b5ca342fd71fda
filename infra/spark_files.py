"""The files of Spark jobs come with the deployment, and the application stops before it goes: a custom resource does both.

The archive of Python packages and the jobs' entry points are assets, which ``cdk deploy`` uploads to the bucket of ``cdk
bootstrap``. A function copies them within S3 to the names that the flow expects, whatever their size; it may read no other files.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aws_cdk import CustomResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra import spark_package
from infra.acknowledged import acknowledge, acknowledge_wildcards
from infra.encryption import ENCRYPT, through
from infra.job_flow import ARCHIVE, JOBS
from infra.settings import Settings, SettingsError

SOURCE: Final = Path(__file__).parent / "spark_resource"
_SECONDS: Final = 840
"""Of a call: cancelling a run and stopping the application take a minute or two."""


class SparkFiles(Construct):
    """Archive and jobs in the bucket ``artifacts``, and the end of the application. What starts jobs has to depend on it, so that
    it is deleted first."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        artifacts: s3.IBucket,
        application: emr.CfnApplication,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, name)
        archive = built_package(settings)
        files = [(ARCHIVE, archive), *((f"{JOBS}/{job.name}", job) for job in jobs_of(archive))]
        uploads = [
            (target, assets.Asset(self, "Archive" if file == archive else f"Job{file.stem}", path=str(file)))
            for target, file in files
        ]
        function = self._function(settings, uploads, artifacts, application, key)
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::GravelerSparkFiles",
            service_token=function.function_arn,
            service_timeout=Duration.seconds(_SECONDS + 60),
            properties={
                "Application": application.attr_application_id,
                "Bucket": artifacts.bucket_name,
                "Files": [
                    {"Key": target, "FromBucket": asset.s3_bucket_name, "FromKey": asset.s3_object_key}
                    for target, asset in uploads
                ],
            },
        )

    def _function(
        self,
        settings: Settings,
        uploads: Sequence[tuple[str, assets.Asset]],
        artifacts: s3.IBucket,
        application: emr.CfnApplication,
        key: kms.IKey | None,
    ) -> lambda_.Function:
        log = logs.LogGroup(self, "Log", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="graveler: brings the files of Spark jobs, and stops their application",
        )
        stack = Stack.of(self)
        runs = f"{application.attr_arn}/jobruns/*"
        statements = [
            iam.PolicyStatement(actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.log_group_arn]),
            iam.PolicyStatement(
                actions=["s3:GetObject"],
                resources=[
                    f"arn:{stack.partition}:s3:::{asset.s3_bucket_name}/{asset.s3_object_key}" for _, asset in uploads
                ],
            ),
            iam.PolicyStatement(
                actions=["s3:PutObject"], resources=[artifacts.arn_for_objects(target) for target, _ in uploads]
            ),
            iam.PolicyStatement(
                actions=[
                    *("emr-serverless:GetApplication", "emr-serverless:StopApplication"),
                    "emr-serverless:ListJobRuns",
                ],
                resources=[application.attr_arn],
            ),
            iam.PolicyStatement(actions=["emr-serverless:CancelJobRun"], resources=[runs]),
        ]
        if key is not None:
            statements.append(through(key.key_arn, stack, ENCRYPT, ["s3"]))
        policy = iam.Policy(self, "Policy", roles=[role], statements=statements)
        acknowledge_wildcards(policy, statements, "Runs have names of their own.")
        function = lambda_.Function(
            self,
            "Function",
            description="graveler: brings the files of Spark jobs, and stops their application",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64
            if settings.architecture == "arm64"
            else lambda_.Architecture.X86_64,
            handler="handler.handler",
            code=lambda_.Code.from_asset(str(SOURCE), exclude=["__pycache__"]),
            role=role.without_policy_updates(),
            timeout=Duration.seconds(_SECONDS),
            log_group=log,
        )
        function.node.add_dependency(policy)
        acknowledge(function, "AwsSolutions-L1", "The same Python as the deployment's other functions.")
        return function


def built_package(settings: Settings) -> Path:
    """Return the archive that jobs need: the one in the folder ``spark_package``, or one that is built now.
    :class:`SettingsError` if there is none of this architecture, or it cannot be built."""
    architecture = settings.architecture
    if not settings.spark_package:
        try:
            return spark_package.build(architecture)
        except spark_package.PackageError as error:
            raise SettingsError(f"spark is true, but the package of Spark jobs cannot be built: {error}") from None
    folder = Path(settings.spark_package)
    archives = sorted(folder.glob(f"graveler-{architecture}-*.tar.gz"), key=lambda file: file.stat().st_mtime)
    if not archives or not (folder / JOBS).is_dir():
        raise SettingsError(
            f"spark_package {settings.spark_package!r} has no graveler-{architecture}-….tar.gz with {JOBS}/ beside it; "
            f"`make spark-package ARCHITECTURE={architecture}` builds both in build/spark"
        )
    return archives[-1]


def jobs_of(archive: Path) -> list[Path]:
    """Return the entry points of the jobs beside an archive."""
    return sorted((archive.parent / JOBS).glob("*.py"))
