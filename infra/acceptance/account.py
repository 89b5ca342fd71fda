"""The stacks of an acceptance run come to an account, and go again."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.exceptions import ClientError

from infra.feature_flags import feature_flags
from infra.settings import TAG

ROOT: Final = Path(__file__).resolve().parents[2]
CDK: Final = ROOT / "infra" / "node_modules" / ".bin" / "cdk"
PYTHON: Final = ROOT / ".venv-deploy" / "bin" / "python"
REQUEST_RECORDS: Final = 2_000
PART_RECORDS: Final = 1_000
THROTTLED: Final = "getLakeFSVersion"
"""Operation that the deployment lets through once a second."""
RESTORED: Final = "diff"
"""Function that starts from a snapshot in AWS."""
_DELETED_AT_ONCE: Final = 1_000
_TOOLKIT: Final = "CDKToolkit"


class AccountError(Exception):
    """AWS, or one of its tools, refused; says which and what it said."""


class Account:
    """An account and a region, with the credentials of the environment. ``folder`` keeps templates and outputs. Steps say what
    they did, in a sentence."""

    def __init__(self, region: str, name: str, folder: Path, *, spark: bool) -> None:
        self.region = region
        self.name = name
        self._folder = folder
        self._spark = spark
        self._session = boto3.Session(region_name=region)
        try:
            told = self._aws("sts").get_caller_identity()
        except Exception as error:
            raise AccountError(
                f"AWS does not know who asks: {error}; give credentials as for any of its tools"
            ) from error
        self.number: str = told["Account"]
        self.caller: str = told["Arn"]

    @property
    def source(self) -> str:
        """Name of the bucket from which objects are imported. It is made beside the stacks."""
        return f"{self.name}-source-{self.number}-{self.region}"

    def settings(self) -> dict[str, object]:
        """Those that differ from the defaults: what goes with its stack, operations that are long when they are small, and what
        is looked at besides."""
        return {
            "name": self.name,
            "removal": "destroy",
            "import_buckets": [self.source],
            "request_records": REQUEST_RECORDS,
            "part_records": PART_RECORDS,
            "parts_at_once": 10,
            "throttles": [f"{THROTTLED}=1/1"],
            "aws_login": ["endpoint"],
            # Emulators have neither.
            "spark": self._spark,
            "snap_start": [RESTORED] if self._spark else [],
            "log_days": 1,
        }

    def synthesise(self) -> Path:
        """Write the templates; their folder. Takes some seconds, and a minute where the layer is built."""
        into = self._folder / "assembly"
        settings = {"deployment": "none", **self.settings()}
        context = {**feature_flags(), **{f"graveler:{name}": value for name, value in settings.items()}}
        self._run([PYTHON, "app.py"], {"CDK_OUTDIR": str(into), "CDK_CONTEXT_JSON": json.dumps(context)})
        return into

    def bootstrap(self) -> str:
        """Make what the CDK needs in an account and region, unless it is there. It stays."""
        try:
            self._aws("cloudformation").describe_stacks(StackName=_TOOLKIT)
        except ClientError:
            self._cdk("bootstrap", f"aws://{self.number}/{self.region}")
            return f"made the stack {_TOOLKIT}, which stays: other deployments of the account may use it"
        return f"the stack {_TOOLKIT} was there"

    def deploy(self, assembly: Path) -> dict[str, str]:
        """Deploy all stacks; their outputs. Makes the bucket to import from, too."""
        where = {} if self.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": self.region}}
        s3 = self._aws("s3")
        if self.source not in {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}:
            s3.create_bucket(Bucket=self.source, **where)
        outputs = self._folder / "outputs.json"
        self._cdk(
            *("deploy", "--all", "--app", str(assembly), "--require-approval", "never"),
            *("--outputs-file", str(outputs)),
        )
        told: dict[str, dict[str, str]] = json.loads(outputs.read_text())
        return {name: value for each in told.values() for name, value in each.items()}

    def destroy(self, assembly: Path) -> str:
        """Empty the buckets, delete the stacks and the bucket beside them; says what still has the deployment's tag."""
        for bucket in self._buckets():
            self._empty(bucket)
        self._cdk("destroy", "--all", "--app", str(assembly), "--force")
        s3 = self._aws("s3")
        if self.source in {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}:
            self._empty(self.source)
            s3.delete_bucket(Bucket=self.source)
        stacks = self._stacks()
        if stacks:
            raise AccountError(f"still there: {', '.join(stacks)}; delete them in the console of CloudFormation")
        left = sorted(self._tagged())
        if not left:
            return "all stacks and buckets are gone; nothing has the deployment's tag"
        return (
            f"all stacks and buckets are gone; the tag is still on {', '.join(left)} (AWS deletes KMS keys after weeks)"
        )

    def _stacks(self) -> list[str]:
        pages = self._aws("cloudformation").get_paginator("describe_stacks").paginate()
        return sorted(
            stack["StackName"]
            for page in pages
            for stack in page["Stacks"]
            if stack["StackName"].startswith(f"{self.name}-") and stack["StackStatus"] != "DELETE_COMPLETE"
        )

    def _buckets(self) -> Iterable[str]:
        formation = self._aws("cloudformation")
        for stack in self._stacks():
            for page in formation.get_paginator("list_stack_resources").paginate(StackName=stack):
                for resource in page["StackResourceSummaries"]:
                    if resource["ResourceType"] == "AWS::S3::Bucket" and resource.get("PhysicalResourceId"):
                        yield resource["PhysicalResourceId"]

    def _tagged(self) -> set[str]:
        pages = self._aws("resourcegroupstaggingapi").get_paginator("get_resources")
        found = pages.paginate(TagFilters=[{"Key": TAG, "Values": [self.name]}])
        return {resource["ResourceARN"] for page in found for resource in page["ResourceTagMappingList"]}

    def _empty(self, bucket: str) -> None:
        """Delete all versions of all objects."""
        s3 = self._aws("s3")
        for page in s3.get_paginator("list_object_versions").paginate(
            Bucket=bucket, PaginationConfig={"PageSize": _DELETED_AT_ONCE}
        ):
            gone = [
                {"Key": each["Key"], "VersionId": each["VersionId"]}
                for kind in ("Versions", "DeleteMarkers")
                for each in page.get(kind, [])
            ]
            if gone:
                told = s3.delete_objects(Bucket=bucket, Delete={"Objects": gone, "Quiet": True})
                if told.get("Errors"):
                    raise AccountError(f"bucket {bucket} cannot be emptied: {told['Errors'][0]}")

    def _aws(self, service: str) -> Any:
        return self._session.client(service)  # type: ignore[call-overload]

    def _cdk(self, *words: str) -> None:
        self._run([CDK, *words], {})

    def _run(self, command: Sequence[str | Path], more: Mapping[str, str]) -> None:
        """A tool, with what it says kept in ``tools.log``."""
        quiet = {"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1", "CDK_DISABLE_CLI_TELEMETRY": "1"}
        region = {"AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region}
        log = self._folder / "tools.log"
        with log.open("ab") as said:
            begin = said.tell()
            done = subprocess.run(
                command, cwd=ROOT, env={**os.environ, **quiet, **region, **more}, stdout=said, stderr=said, check=False
            )
        if done.returncode:
            words = " ".join(str(word) for word in command[:2])
            raise AccountError(
                f"{words} failed; {log} ends with: {log.read_bytes()[begin:][-1500:].decode(errors='replace')}"
            )
