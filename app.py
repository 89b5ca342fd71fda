"""The CDK app: ``cdk deploy --all`` brings graveler to an AWS account; ``python app.py`` only writes the templates.

No account or region is looked up, and no Docker is needed. docs/deploy.md tells the way.
"""

import sys

from aws_cdk import App, Tags, Validations
from cdk_nag import AwsSolutionsChecks

from infra.api import ApiStack
from infra.budget import BudgetStack
from infra.ingest import IngestStack
from infra.layer import LayerError
from infra.network import NetworkStack
from infra.observability import ObservabilityStack
from infra.operations import OperationsStack
from infra.settings import TAG, SettingsError, read_settings
from infra.spark import SparkStack
from infra.stateful import StatefulStack


def main() -> int:
    """Write the templates of all stacks into the folder that the CDK names."""
    app = App()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        settings = read_settings(app.node.try_get_context)
        stateful = StatefulStack(app, f"{settings.name}-stateful", settings)
        network = NetworkStack(app, f"{settings.name}-network") if settings.shared_cache else None
        operations = OperationsStack(
            app,
            f"{settings.name}-operations",
            settings,
            bucket=stateful.bucket,
            table=stateful.table,
            landing=stateful.landing,
            encryption_key=stateful.encryption_key,
            network=network,
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
            )
            if settings.ingest
            else None
        )
    except (SettingsError, LayerError) as error:
        print(error, file=sys.stderr)
        return 1
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
    observability = ObservabilityStack(
        app,
        f"{settings.name}-observability",
        settings,
        served=served,
        operations=operations,
        ingest=ingest,
        spark=spark,
        table=stateful.table,
    )
    if settings.monthly_budget:
        BudgetStack(app, f"{settings.name}-budget", settings, topic=observability.topic)
    Tags.of(app).add(TAG, settings.name)
    app.synth()
    return 0


sys.exit(main())
