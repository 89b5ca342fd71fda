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

from infra.settings import DEPLOYMENTS, OWN_KEY, SETTING_TAG, TAG, SettingsError
from infra.settings_files import read_file

Clients = Callable[[str], Any]
"""Makes a client of botocore from a service's name."""

_ABOUT: Final = "Find what a removed deployment left, and print the settings file that has a new one adopt it."
_ADOPTED: Final = ("bucket", "landing_bucket", "table", "sealing_key", "first_key")
_ENCRYPTION: Final = ("encryption_key", "former_encryption_keys")


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
    return {setting: values[setting][0] for setting in (*_ADOPTED, *_ENCRYPTION) if setting in values}


def merged(name: str, file: Mapping[str, Any], left: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a deployment that adopts what is ``left``. What the ``file`` of the removed one names stays: a
    restored table, or a key by which it has encrypted. ``own`` among its keys becomes the key that is left.
    :class:`LeftoversError` for the file of another deployment."""
    if file.get("name", name) != name:
        raise LeftoversError(
            f"the settings file belongs to the deployment {file['name']}; name another by --deployment"
        )
    settings = {"name": name, **file, **{setting: left[setting] for setting in _ADOPTED if setting in left}}
    settings |= {setting: file[setting] for setting in _ADOPTED if file.get(setting)}
    encrypts, former = file.get("encryption_key", ""), list(file.get("former_encryption_keys", ()))
    own_key = left.get("encryption_key") or left.get("former_encryption_keys")
    if own_key is None:
        return settings
    if (
        OWN_KEY in former
        or (left.get("former_encryption_keys") and encrypts != OWN_KEY)
        or encrypts not in ("", OWN_KEY)
    ):
        former = [own_key if key == OWN_KEY else key for key in former]
        if own_key not in (encrypts, *former):
            former.append(own_key)
        return {**settings, "former_encryption_keys": former} if former else settings
    return {**settings, "encryption_key": own_key}


def advice(settings: Mapping[str, Any], left: Mapping[str, str], clients: Clients) -> list[str]:
    """Return what somebody should know before they adopt. Two requests."""
    lines = [
        f"{setting}: none is left; the deployment will create one" for setting in _ADOPTED if setting not in settings
    ]
    lines += [
        f"{setting}: {left[setting]} is left, but the settings file names {settings[setting]}"
        for setting in _ADOPTED
        if setting in left and settings[setting] != left[setting]
    ]
    lines += _advice_on_encryption(settings, clients)
    if "table" in settings and "sealing_key" not in settings:
        lines.append(
            "The key that sealed the secrets of the table is gone: docs/deploy.md, Adopt, says how to renew them."
        )
    landing = settings.get("landing_bucket")
    if landing is not None:
        notifications = clients("s3").get_bucket_notification_configuration(Bucket=landing)
        if "EventBridgeConfiguration" not in notifications:
            lines.append(
                f"{landing} sends no events to EventBridge, so nothing that lands there is ingested: aws s3api "
                f"put-bucket-notification-configuration --bucket {landing} --notification-configuration "
                "'{\"EventBridgeConfiguration\": {}}' turns them on (and replaces other notifications)."
            )
    return lines


def _advice_on_encryption(settings: Mapping[str, Any], clients: Clients) -> list[str]:
    bucket = settings.get("bucket")
    if bucket is None:
        return []
    try:
        rules = clients("s3").get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ServerSideEncryptionConfigurationNotFoundError":
            raise
        rules = []
    keys = [rule.get("ApplyServerSideEncryptionByDefault", {}).get("KMSMasterKeyID") for rule in rules]
    setting_keys = (settings.get("encryption_key"), *settings.get("former_encryption_keys", ()))
    return [
        f"{bucket} is encrypted by {key}, which no setting names, so nothing in it could be read: add the key as encryption_key, "
        "or to former_encryption_keys"
        for key in keys
        if key is not None and key not in setting_keys
    ]


def main(arguments: Sequence[str] | None = None, *, folder: Path = DEPLOYMENTS) -> int:
    """The command. Settings that the deployment's file has already stay in it (:func:`merged`)."""
    parser = argparse.ArgumentParser(prog="python -m infra.leftovers", description=_ABOUT)
    parser.add_argument("name", help="the setting `name` of the removed deployment, as graveler")
    parser.add_argument("--write", action="store_true", help="write the settings file")
    parser.add_argument(
        "--deployment", metavar="FILE", help="the settings file is deployments/FILE.json, not deployments/NAME.json"
    )
    options = parser.parse_args(arguments)
    session = botocore.session.Session()
    path = folder / f"{options.deployment or options.name}.json"
    try:
        left = leftovers(options.name, session.create_client)
        settings = merged(options.name, read_file(path) if path.is_file() else {}, left)
        lines = advice(settings, left, session.create_client)
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
            description = clients("dynamodb").describe_table(TableName=table)["Table"]
            return None if description.get("TableStatus") == "DELETING" else table
        if service == "kms":
            state = clients("kms").describe_key(KeyId=arn)["KeyMetadata"]["KeyState"]
            if state == "Disabled":
                raise LeftoversError(f"{arn} is disabled, and what it has encrypted cannot be read; enable it first")
            return arn if state == "Enabled" else None
        secret = clients("secretsmanager").describe_secret(SecretId=arn)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("404", "ResourceNotFoundException", "NotFoundException"):
            return None
        raise
    return None if "DeletedDate" in secret else arn


if __name__ == "__main__":
    sys.exit(main())
