"""``python -m infra.leftovers NAME`` finds what a removed deployment left, and prints the settings file that has a new one adopt
it. With ``--write``, it writes the file. It changes nothing in the account.

Buckets, table, keys and secret are found by their tags, and then asked for, since the index of tags may know them for a while
after they were deleted (https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html).
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError

from infra.settings import DEPLOYMENTS, SETTING_TAG, TAG, SettingsError, read_file

Clients = Callable[[str], Any]
"""Makes a client of botocore from a service's name."""

_ABOUT: Final = "Find what a removed deployment left, and print the settings file that has a new one adopt it."
_SETTINGS: Final = ("bucket", "landing_bucket", "table", "sealing_key", "first_key", "encryption_key")


class LeftoversError(Exception):
    """What is left cannot be adopted; says why, and what to do."""


def leftovers(name: str, clients: Clients) -> dict[str, str]:
    """Return the settings that adopt what the deployment ``name`` left, in the account and region of ``clients``.
    :class:`LeftoversError` while it is deployed, if there is nothing, or several of a kind. Two requests, and one for each
    resource."""
    if _is_deployed(clients("cloudformation"), f"{name}-stateful"):
        raise LeftoversError(f"{name}-stateful is deployed, and uses what it has; delete it first, or adopt nothing")
    pages = (
        clients("resourcegroupstaggingapi")
        .get_paginator("get_resources")
        .paginate(TagFilters=[{"Key": TAG, "Values": [name]}, {"Key": SETTING_TAG}])
    )
    values: dict[str, list[str]] = {}
    for resource in (each for page in pages for each in page["ResourceTagMappingList"]):
        setting = next(tag["Value"] for tag in resource["Tags"] if tag["Key"] == SETTING_TAG)
        value = _existing(resource["ResourceARN"], clients)
        if value is not None:
            values.setdefault(setting, []).append(value)
    if not values:
        raise LeftoversError(f"nothing in this account and region has the tags {TAG}={name} and {SETTING_TAG}")
    for setting, several in values.items():
        if len(several) > 1:
            raise LeftoversError(
                f"several are left for {setting}: {', '.join(sorted(several))}; remove the tag {SETTING_TAG} from those that are "
                "not to be adopted"
            )
    return {setting: values[setting][0] for setting in _SETTINGS if setting in values}


def advice(settings: Mapping[str, str], clients: Clients) -> list[str]:
    """Return what somebody should know before they adopt. One request."""
    lines = [
        f"{setting}: none is left; the deployment will create one"
        for setting in _SETTINGS[:-1]
        if setting not in settings
    ]
    if "table" in settings and "sealing_key" not in settings:
        lines.append(
            "The key that sealed the secrets of the table is gone: docs/deploy.md, Adopt, says how to renew them."
        )
    landing = settings.get("landing_bucket")
    if landing is not None:
        told = clients("s3").get_bucket_notification_configuration(Bucket=landing)
        if "EventBridgeConfiguration" not in told:
            lines.append(
                f"{landing} sends no events to EventBridge, so nothing that lands there is ingested: aws s3api "
                f"put-bucket-notification-configuration --bucket {landing} --notification-configuration "
                "'{\"EventBridgeConfiguration\": {}}' turns them on (and replaces other notifications)."
            )
    return lines


def main(arguments: Sequence[str] | None = None, *, folder: Path = DEPLOYMENTS) -> int:
    """The command. Settings that the deployment's file has already stay in it."""
    parser = argparse.ArgumentParser(prog="python -m infra.leftovers", description=_ABOUT)
    parser.add_argument("name", help="the setting `name` of the removed deployment, as graveler")
    parser.add_argument("--write", action="store_true", help="write deployments/NAME.json")
    options = parser.parse_args(arguments)
    session = botocore.session.Session()
    path = folder / f"{options.name}.json"
    try:
        found = leftovers(options.name, session.create_client)
        lines = advice(found, session.create_client)
        settings = {"name": options.name, **(read_file(path) if path.is_file() else {}), **found}
    except (LeftoversError, SettingsError, BotoCoreError, ClientError) as error:
        print(error, file=sys.stderr)
        return 1
    document = json.dumps(settings, indent=2) + "\n"
    if options.write:
        path.parent.mkdir(exist_ok=True)
        path.write_text(document, encoding="utf-8")
    else:
        print(document, end="")
    for line in lines:
        print(line, file=sys.stderr)
    return 0


def _is_deployed(formation: Any, stack: str) -> bool:
    try:
        formation.describe_stacks(StackName=stack)
    except ClientError as error:
        if "does not exist" in str(error):
            return False
        raise
    return True


def _existing(arn: str, clients: Clients) -> str | None:
    """Return the value of a setting that names this resource, or None if it is gone or about to go."""
    service, resource = arn.split(":")[2], arn.split(":", 5)[5]
    try:
        if service == "s3":
            clients("s3").head_bucket(Bucket=resource)
            return resource
        if service == "dynamodb":
            table = resource.removeprefix("table/")
            clients("dynamodb").describe_table(TableName=table)
            return table
        if service == "kms":
            state = clients("kms").describe_key(KeyId=arn)["KeyMetadata"]["KeyState"]
            return arn if state == "Enabled" else None
        told = clients("secretsmanager").describe_secret(SecretId=arn)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("404", "ResourceNotFoundException", "NotFoundException"):
            return None
        raise
    return None if "DeletedDate" in told else arn


if __name__ == "__main__":
    sys.exit(main())
