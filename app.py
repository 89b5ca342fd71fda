"""The CDK app: ``cdk deploy --all`` brings graveler to an AWS account; ``python app.py`` only writes the templates.

The templates fit any account and region, and no Docker is needed. Where the CDK's command has credentials, the settings are first
compared with those of the deployed stacks. docs/deploy.md tells the way.
"""

import os
import sys

from aws_cdk import App, Stack, Tags, Validations
from aws_cdk import aws_iam as iam
from cdk_nag import AwsSolutionsChecks

from infra.api import ApiStack
from infra.budget import BudgetStack
from infra.checks import ChecksStack
from infra.deployed import OPTIONAL_STACKS, QUALIFIER, DeployedStacks, check_settings, left_out
from infra.ingest import IngestStack
from infra.layer import LayerError
from infra.network import NetworkStack
from infra.observability import ObservabilityStack
from infra.operations import OperationsStack
from infra.settings import CONFIRM, PREFIX, TAG, Settings, SettingsError
from infra.settings_files import check_context, read_file, read_settings, settings_path
from infra.spark import SparkStack
from infra.stateful import StatefulStack


def main() -> int:
    """Write the templates of all stacks into the folder that the CDK names."""
    app = App()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        settings, stacks = _settings(app)
        stateful = StatefulStack(app, f"{settings.name}-stateful", settings)
        network = NetworkStack(app, f"{settings.name}-network") if settings.shared_cache else None
        checks = (
            ChecksStack(
                app,
                f"{settings.name}-checks",
                settings,
                bucket=stateful.bucket,
                table=stateful.table,
                landing=stateful.landing,
                encryption_key=stateful.encryption_key,
            )
            if settings.check_function
            else None
        )
        check_function = None if checks is None else checks.function
        operations = OperationsStack(
            app,
            f"{settings.name}-operations",
            settings,
            bucket=stateful.bucket,
            table=stateful.table,
            landing=stateful.landing,
            encryption_key=stateful.encryption_key,
            network=network,
            check_function=check_function,
        )
        served = ApiStack(
            app,
            f"{settings.name}-api",
            settings,
            bucket=stateful.bucket,
            table=stateful.table,
            landing=stateful.landing,
            encryption_key=stateful.encryption_key,
            first_key=stateful.first_key,
            sealing_key=stateful.sealing_key,
            machine=operations.machine,
            network=network,
            check_function=check_function,
        )
        ingest = (
            IngestStack(
                app,
                f"{settings.name}-ingest",
                settings,
                bucket=stateful.bucket,
                table=stateful.table,
                landing=stateful.landing,
                encryption_key=stateful.encryption_key,
                machine=operations.machine,
                check_function=check_function,
            )
            if settings.ingest
            else None
        )
        spark = (
            SparkStack(
                app,
                f"{settings.name}-spark",
                settings,
                bucket=stateful.bucket,
                table=stateful.table,
                landing=stateful.landing,
                encryption_key=stateful.encryption_key,
                endpoint=served.endpoint,
            )
            if settings.spark
            else None
        )
    except (SettingsError, LayerError) as error:
        print(error, file=sys.stderr)
        return 1
    observability = ObservabilityStack(
        app,
        f"{settings.name}-observability",
        settings,
        served=served,
        operations=operations,
        check_function=check_function,
        ingest=ingest,
        spark=spark,
        table=stateful.table,
    )
    if settings.monthly_budget:
        BudgetStack(app, f"{settings.name}-budget", settings, topic=observability.topic)
    for stack in app.node.children:
        if isinstance(stack, Stack) and stack is not stateful:
            # Also where nothing is imported from it, as all was adopted: it has the record.
            stack.add_stack_dependency(stateful)
    Tags.of(app).add(TAG, settings.name)
    if settings.permissions_boundary:
        boundary = iam.ManagedPolicy.from_managed_policy_arn(
            stateful, "PermissionsBoundary", settings.permissions_boundary
        )
        iam.PermissionsBoundary.of(app).apply(boundary)
    absent = [suffix for suffix in OPTIONAL_STACKS if app.node.try_find_child(f"{settings.name}-{suffix}") is None]
    _remark(left_out(stacks, settings.name, absent))
    app.synth()
    return 0


def _settings(app: App) -> tuple[Settings, DeployedStacks]:
    """Return the settings, and the stacks that they were compared with. :class:`SettingsError`."""
    check_context(app.node.get_all_context())
    context = app.node.try_get_context
    path = settings_path(context)
    settings = read_settings(context, None if path is None else read_file(path))
    region = os.environ.get("CDK_DEFAULT_REGION")
    if region and os.environ.get("CDK_DEFAULT_ACCOUNT"):  # without credentials, the region may be the CDK's guess
        settings.check_region(region)
    stacks = DeployedStacks(
        settings.name, os.environ, qualifier=context("@aws-cdk/core:bootstrapQualifier") or QUALIFIER
    )
    confirmed = [name.strip() for name in str(context(f"{PREFIX}:{CONFIRM}") or "").split(",") if name.strip()]
    source = "no settings file was read" if path is None else f"from {path}"
    _remark(check_settings(stacks, settings, confirmed, source))
    return settings, stacks


def _remark(lines: list[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


sys.exit(main())
