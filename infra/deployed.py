"""Comparison of settings with those of the deployed stacks: no deployment takes an option back because somebody left it out.

``app.py`` runs it where the CDK's command has found credentials, which it says by ``CDK_DEFAULT_ACCOUNT`` and
``CDK_DEFAULT_REGION`` (https://docs.aws.amazon.com/cdk/v2/guide/configure-env.html). It costs a request to STS, three to
CloudFormation, and one for each optional stack that the settings leave out.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, Final

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError  # noqa: A004

from infra.settings import CONFIRM, Settings, SettingsError

METADATA: Final = "graveler:settings"
"""Name of the settings, as JSON, among the metadata of the resource that keeps them (``infra/record.py``)."""
UNCOMPARED: Final = "uncompared"
"""Confirms a deployment whose settings cannot be compared."""
OPTIONAL_STACKS: Final = ("network", "checks", "ingest", "spark", "budget")
"""Ends of the names of stacks that settings leave out."""
QUALIFIER: Final = "hnb659fds"
"""Of the roles of ``cdk bootstrap``: https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-customizing.html"""

_RECORD: Final = "AWS::CloudFormation::WaitConditionHandle"
_ADOPTED: Final = ("bucket", "landing_bucket", "sealing_key", "first_key")
_NOT_THERE: Final = ("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_COMPLETE")
"""Of a stack: a first deployment was never executed, or failed."""
_FIXED: Final = ("DELETE_FAILED", "UPDATE_ROLLBACK_FAILED")
"""CloudFormation updates no such stack, and it may have no record or two:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html"""
_DENIED: Final = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
_LIMITS: Final = Config(connect_timeout=5, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 3})

Clients = Callable[..., Any]
"""Makes a client of botocore from a service's name, ``region_name`` and the parts of credentials."""


class UncomparedError(Exception):
    """The settings cannot be compared; says why. ``harmless`` if nothing can be deployed either."""

    def __init__(self, reason: str, *, harmless: bool = False) -> None:
        super().__init__(reason)
        self.harmless = harmless


class _NoStackError(Exception):
    """There is no stack of this name."""


class DeployedStacks:
    """The stacks of a deployment in the account and region of the CDK's command (``environment``)."""

    def __init__(
        self,
        name: str,
        environment: Mapping[str, str],
        *,
        qualifier: str = QUALIFIER,
        clients: Clients | None = None,
    ) -> None:
        self._name = name
        self._account = environment.get("CDK_DEFAULT_ACCOUNT")
        self._region = environment.get("CDK_DEFAULT_REGION")
        self._qualifier = qualifier
        self._clients = clients or botocore.session.Session().create_client
        self._formation: Any = None

    def settings(self) -> dict[str, Any] | None:
        """Return the settings that were deployed last, or None if nothing is deployed. :class:`UncomparedError`."""
        stack = f"{self._name}-stateful"
        status = self._status("stateful")
        if status is None or status in _NOT_THERE:
            return None
        if status in _FIXED:
            raise UncomparedError(f"{stack} is {status}, and AWS refuses to update it", harmless=True)
        if status.endswith("_IN_PROGRESS"):
            raise UncomparedError(f"{stack} is {status}; wait until that is done")
        resources = self._ask("describe_stack_resources", StackName=stack)["StackResources"]
        records = [
            each["LogicalResourceId"]
            for each in resources
            if each["ResourceType"] == _RECORD and not each["ResourceStatus"].startswith("DELETE")
        ]
        settings: list[dict[str, Any]] = []
        for record in records:
            detail = self._ask("describe_stack_resource", StackName=stack, LogicalResourceId=record)
            metadata = json.loads(detail["StackResourceDetail"].get("Metadata", "{}"))
            if METADATA in metadata:
                settings.append(json.loads(metadata[METADATA]))
        if not settings:
            raise UncomparedError(f"{stack} has no record of its settings, since an earlier version deployed it")
        if len(settings) > 1:
            raise UncomparedError(f"{stack} is {status}, and has {len(settings)} records of its settings")
        return settings[0]

    def is_deployed(self, suffix: str) -> bool:
        """Return whether there is a stack of the deployment whose name ends like this. :class:`UncomparedError`."""
        status = self._status(suffix)
        return status is not None and status not in _NOT_THERE

    def _status(self, suffix: str) -> str | None:
        try:
            (stack,) = self._ask("describe_stacks", StackName=f"{self._name}-{suffix}")["Stacks"]
        except _NoStackError:
            return None
        status: str = stack["StackStatus"]
        return status

    def _ask(self, operation: str, **parameters: str) -> Any:
        try:
            if self._formation is None:
                self._formation = self._connect()
            try:
                return getattr(self._formation, operation)(**parameters)
            except ClientError as error:
                if error.response["Error"]["Code"] not in _DENIED:
                    raise
                self._formation = self._connect(looking_up=True)
                return getattr(self._formation, operation)(**parameters)
        except ClientError as error:
            # https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStacks.html
            if error.response["Error"]["Code"] == "ValidationError" and "does not exist" in str(error):
                raise _NoStackError from error
            raise UncomparedError(str(error)) from error
        except (ConnectionError, HTTPClientError) as error:
            raise UncomparedError(f"AWS cannot be reached: {error}", harmless=True) from error
        except BotoCoreError as error:
            raise UncomparedError(str(error)) from error

    def _connect(self, *, looking_up: bool = False) -> Any:
        """Return a client of CloudFormation with the credentials of the environment, which have to be those of the CDK's command.
        ``looking_up`` takes the role for reading of ``cdk bootstrap``, as that command does for whoever may only assume its
        roles."""
        if not self._account or not self._region:
            raise UncomparedError("the CDK has found no credentials, or no region", harmless=True)
        sts: Any = self._clients("sts", region_name=self._region, config=_LIMITS)
        try:
            identity = sts.get_caller_identity()
        except ClientError as error:
            raise UncomparedError(f"AWS refuses the credentials: {error}") from error
        if identity["Account"] != self._account:
            raise UncomparedError(
                f"the CDK deploys to account {self._account}, but the credentials of the environment belong to "
                f"{identity['Account']}; name a profile by AWS_PROFILE, not by --profile"
            )
        if not looking_up:
            return self._clients("cloudformation", region_name=self._region, config=_LIMITS)
        partition = identity["Arn"].split(":")[1]
        role = f"cdk-{self._qualifier}-lookup-role-{self._account}-{self._region}"
        try:
            credentials = sts.assume_role(
                RoleArn=f"arn:{partition}:iam::{self._account}:role/{role}", RoleSessionName="graveler-settings"
            )["Credentials"]
        except ClientError as error:
            raise UncomparedError(
                f"these credentials may neither read stacks (cloudformation:DescribeStacks) nor assume the role {role}: {error}"
            ) from error
        return self._clients(
            "cloudformation",
            region_name=self._region,
            config=_LIMITS,
            aws_access_key_id=credentials["AccessKeyId"],
            aws_secret_access_key=credentials["SecretAccessKey"],
            aws_session_token=credentials["SessionToken"],
        )


def check_settings(stacks: DeployedStacks, settings: Settings, confirmed: Collection[str], source: str) -> list[str]:
    """Return remarks for whoever deploys. :class:`SettingsError` for settings that differ from the deployed ones and are not
    ``confirmed``, and if that cannot be known. ``source`` names where the settings come from."""
    try:
        deployed = stacks.settings()
    except UncomparedError as error:
        if error.harmless or UNCOMPARED in confirmed:
            return [f"The settings were not compared with deployed ones: {error}."]
        raise SettingsError(
            f"The settings cannot be compared with deployed ones: {error}.\n"
            f"Look at the changes with `cdk diff -c graveler:{CONFIRM}={UNCOMPARED}`; `cdk deploy` takes the same confirmation."
        ) from error
    if deployed is None:
        return [f"The settings were not compared with deployed ones: there is no stack {settings.name}-stateful."]
    _check_names(confirmed, deployed)
    values = settings.values()
    changes = differences(deployed, values)
    _refuse_what_cannot_change(deployed, values)
    if set(changes) <= set(confirmed):
        return [f"Confirmed: {line}" for line in _lines(changes)]
    raise SettingsError(
        "\n".join(
            (
                f"These settings ({source}) differ from those that {settings.name}-stateful was deployed with:",
                *(f"  {line}" for line in _lines(changes)),
                "If they should be as deployed, put them into the settings file.",
                f"If the changes are meant, confirm them: -c graveler:{CONFIRM}={','.join(changes)}",
            )
        )
    )


def left_out(stacks: DeployedStacks, name: str, suffixes: Collection[str]) -> list[str]:
    """Return a remark for each stack of these ends that is deployed, though the settings leave it out."""
    try:
        present = [f"{name}-{suffix}" for suffix in suffixes if stacks.is_deployed(suffix)]
    except UncomparedError:
        return []  # said already
    return [
        f"{stack} is deployed, but the settings leave it out. When the other stacks are deployed, delete it: "
        f"aws cloudformation delete-stack --stack-name {stack}"
        for stack in present
    ]


def differences(deployed: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the deployed and the asked value of each setting that differs. A setting that is new in this version has no deployed
    value; one that it no longer has counts if it had a value, and its asked one is None."""
    changed = {
        name: (deployed[name], value) for name, value in asked.items() if name in deployed and deployed[name] != value
    }
    removed = {name: (value, None) for name, value in deployed.items() if name not in asked and value}
    return changed | removed


def _check_names(confirmed: Collection[str], deployed: Mapping[str, Any]) -> None:
    unknown = sorted(set(confirmed) - {field.name for field in fields(Settings)} - set(deployed) - {UNCOMPARED})
    if unknown:
        raise SettingsError(f"{CONFIRM}: {', '.join(unknown)}: no settings; docs/deploy.md has all")


def _refuse_what_cannot_change(deployed: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    for name in _ADOPTED:
        before, after = deployed.get(name, ""), asked[name]
        if bool(before) != bool(after):
            does = f"uses {before}" if before else "has created its own"
            raise SettingsError(
                f"{name} {json.dumps(after)}: the deployment {does}, and cannot change that; what to adopt is decided when it is "
                "deployed first"
            )
    key = deployed.get("encryption_key", "")
    if key and key not in (asked["encryption_key"], *asked["former_encryption_keys"]):
        raise SettingsError(
            f"encryption_key {json.dumps(asked['encryption_key'])}: what {key} has encrypted could not be read any more; add "
            f"{key} to former_encryption_keys"
        )


def _lines(changes: Mapping[str, tuple[Any, Any]]) -> list[str]:
    return [
        f"{name}: {json.dumps(before)} → {'(no setting of this version)' if after is None else json.dumps(after)}"
        for name, (before, after) in changes.items()
    ]
