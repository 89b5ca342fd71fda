"""The front door: an HTTP API, the functions behind it, and what runs by the clock."""

import json
from collections.abc import Mapping
from typing import Final

from aws_cdk import CfnOutput, CustomResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_apigatewayv2 as api
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as states
from constructs import Construct

from infra.acknowledged import acknowledge
from infra.domain import give_domain
from infra.encryption import key_in
from infra.front_door import front_door_keys, give_front_door
from infra.functions import (
    LONG_SECONDS,
    PUT_OBJECTS,
    READ_OBJECTS,
    REQUEST_SECONDS,
    WRITE_OBJECTS,
    CheckFunction,
    Duty,
    Functions,
    Needs,
    start,
)
from infra.network import NetworkStack
from infra.queues import consume, dead_letters, send, work_queue
from infra.routes import CATCH_ALL, FUNCTION_OF, GatewayRoute, gateway_routes
from infra.settings import MAINTAIN_AT_ONCE, Settings, SettingsError
from infra.stateful import lake_table
from infra.table_credentials import TableCredentials
from infra.table_rights import READ_TABLE, WRITE_TABLE, KeyRights
from infra.vended_logs import vended_log

SWEEP_MINUTES: Final = 15
OWN_NAME: Final = "endpoint"
"""Stands for the API's own host name, which nobody knows before it is there."""
_TRIES: Final = 5
_RETRIES: Final = 2
"""Of a clean-up."""

_UPLOADS: Final = ("s3:DeleteObject", "s3:AbortMultipartUpload")
_PARTS: Final = ("s3:ListMultipartUploadParts",)
"""For whoever tells clients which parts of an upload have arrived."""

_LISTED: Final = ("s3:ListBucketMultipartUploads",)
"""For whoever collects garbage, or removes what deleted repositories left: unfinished uploads are part of it."""

_OPEN: Final = ("kms:Decrypt",)
"""For whoever checks tokens, or makes them: the key that sealed what signs them is unwrapped once in a process."""

_CATALOG_SECONDS: Final = 25
"""Of the function ``catalog``, cold start besides, which its time does not include but the gateway's 30 seconds do
(https://github.com/serverless/serverless/issues/11222). When a function is ended, the gateway answers 500
(https://github.com/denoland/deno_registry2/issues/87), after which Iceberg's clients keep the files of a commit. When the gateway
ends first, it answers 503, and Iceberg's Java client repeats the commit, which then is in conflict with the first."""

DUTIES: Final = {
    "read": Duty(
        "refs, objects, listings, presigned URLs, the log",
        READ_TABLE,
        READ_OBJECTS,
        keys=KeyRights.READ,
        sealing=_OPEN,
    ),
    "write": Duty(
        "staging, links, uploads, refs, settings, keys",
        WRITE_TABLE,
        (*WRITE_OBJECTS, *_UPLOADS, *_PARTS),
        keys=KeyRights.WRITE,
        buckets=_LISTED,
        sealing=_OPEN,
        reads_trees=False,  # it asks a queue
        runs_checks=True,
    ),
    "commit": Duty(
        "commit", WRITE_TABLE, READ_OBJECTS, PUT_OBJECTS, keys=KeyRights.READ, sealing=_OPEN, runs_checks=True
    ),
    "merge": Duty(
        "merge, revert, cherry-pick",
        WRITE_TABLE,
        READ_OBJECTS,
        PUT_OBJECTS,
        PUT_OBJECTS,  # the metadata of merged tables
        KeyRights.READ,
        sealing=_OPEN,
        runs_checks=True,
    ),
    "catalog": Duty(
        "the catalog of Iceberg tables",
        WRITE_TABLE,
        READ_OBJECTS,
        PUT_OBJECTS,
        (*PUT_OBJECTS, "s3:AbortMultipartUpload"),  # metadata files, and what it signs for clients
        KeyRights.READ,
        seconds=_CATALOG_SECONDS,
        sealing=_OPEN,  # it logs clients in
        runs_checks=True,
    ),
    "diff": Duty("differences, summaries, blame, checks", READ_TABLE, READ_OBJECTS, keys=KeyRights.READ, sealing=_OPEN),
    "maintain": Duty(
        "dumps, garbage collection, and the clean-up of what commits leave behind",
        WRITE_TABLE,
        (*READ_OBJECTS, *_UPLOADS),  # garbage is deleted
        PUT_OBJECTS,
        seconds=LONG_SECONDS,
        buckets=_LISTED,
        reads_trees=False,
    ),
    "setup": Duty(
        "the first access key and the sealed secrets of a lake, for CloudFormation",
        (*READ_TABLE, "dynamodb:PutItem"),
        (),
        keys=KeyRights.ALONE,
        sealing=(*_OPEN, "kms:GenerateDataKey"),
        reads_trees=False,  # it asks Secrets Manager
    ),
}
_NOT_ASKED: Final = ("maintain", "setup")
"""Functions that no client asks."""

_LINE: Final = {
    "time": "$context.requestTimeEpoch",
    "request_id": "$context.requestId",
    "source": "$context.identity.sourceIp",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "route": "$context.routeKey",
    "status": "$context.status",
    "bytes": "$context.responseLength",
    "ms": "$context.responseLatency",
    "function_ms": "$context.integrationLatency",
    "error": "$context.integrationErrorMessage",
    "agent": "$context.identity.userAgent",
}


class ApiStack(Stack):
    """HTTP API, functions, queue of long operations. Holds nothing: it may be deleted and deployed again at any time."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        bucket: s3.IBucket,
        table: dynamodb.ITable,
        landing: s3.IBucket,
        first_key: str,
        sealing_key: kms.IKey,
        encryption_key: kms.IKey | None,
        machine: states.IStateMachine,
        network: NetworkStack | None = None,
        check_function: CheckFunction | None = None,
    ) -> None:
        super().__init__(scope, name, description="graveler: HTTP API and functions")
        table = lake_table(self, settings, table)
        self._settings = settings
        encryption_key = key_in(self, encryption_key)
        self._queues(encryption_key)
        functions = Functions(
            self,
            "Functions",
            settings,
            bucket=bucket,
            table=table,
            landing=landing,
            duties=DUTIES,
            needs=self._needs(machine, first_key),
            sealing_key=sealing_key,
            encryption_key=encryption_key,
            network=network,
            check_function=check_function,
        )
        self.functions, self._called = functions.all, functions.called
        if settings.table_credentials:
            TableCredentials(
                self,
                "TableCredentials",
                settings,
                function=self.functions["catalog"],
                bucket=bucket,
                encryption_key=encryption_key,
            )
        self._maintain()
        self._set_up(sealing_key)
        self._api()
        self._let_aws_in()
        CfnOutput(self, "Endpoint", value=self.endpoint, description="what clients call")

    def _queues(self, key: kms.IKey | None) -> None:
        self.dead_letters = dead_letters(self, "DeadLetters", key)
        self.operations = work_queue(
            self, "Operations", seconds=LONG_SECONDS, tries=_TRIES, given_up=self.dead_letters, key=key
        )

    def _needs(self, machine: states.IStateMachine, first_key: str) -> dict[str, Needs]:
        """Who hands over to the queue or the state machine of long operations, and who works on what comes; and who writes the
        secret with the first access key, whose ARN is ``first_key``."""
        queued = {"GRAVELER_OPERATIONS_QUEUE": self.operations.queue_url}
        started = {"GRAVELER_OPERATIONS_MACHINE": machine.state_machine_arn}
        paused = {"GRAVELER_PAUSED": "true"} if self._settings.paused else {}
        return {
            "write": Needs({**queued, **started, **paused}, [send(self.operations), start(machine)]),
            "commit": Needs({**started, **paused}, [start(machine)]),
            "merge": Needs({**started, **paused}, [start(machine)]),
            "catalog": Needs(paused),  # a commit of tables is never a long operation
            # The clock makes it look for operations whose workers died, which begin again.
            "maintain": Needs(
                {**queued, **started},
                [consume(self.operations, postpones=True), send(self.operations, self.dead_letters), start(machine)],
            ),
            "setup": Needs(
                {"GRAVELER_FIRST_KEY_SECRET": first_key},
                [
                    iam.PolicyStatement(
                        actions=["secretsmanager:GetSecretValue", "secretsmanager:PutSecretValue"],
                        resources=[first_key],
                    )
                ],
            ),
        }

    def _set_up(self, sealing_key: kms.IKey) -> None:
        """Have the secrets in the table sealed, and the first access key made, if the lake never had one. Nothing goes with the
        resource: the lake stays."""
        CustomResource(
            self,
            "FirstKey",
            resource_type="Custom::GravelerFirstKey",
            service_token=self.functions["setup"].function_arn,
            service_timeout=Duration.seconds(REQUEST_SECONDS * 4),
            removal_policy=RemovalPolicy.RETAIN,
            # A stack in which one of them changes is asked again.
            properties={"SealingKey": sealing_key.key_arn, "Makes": "sealing key, token secret, lake ID, first key"},
        )

    def _maintain(self) -> None:
        """Long operations come through the queue; the clock starts the clean-up.

        The rule's queue takes what EventBridge could not hand over. What the function then fails at, three times, Lambda sends to
        the function's own destination: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html"""
        maintain = self._called["maintain"]
        maintain.add_event_source(
            sources.SqsEventSource(
                self.operations,
                batch_size=1,
                max_concurrency=MAINTAIN_AT_ONCE,
                enabled=not self._settings.paused,
            )
        )
        maintain.configure_async_invoke(
            on_failure=destinations.SqsDestination(self.dead_letters),
            retry_attempts=_RETRIES,
            max_event_age=Duration.hours(1),
        )
        events.Rule(
            self,
            "Sweep",
            description="graveler: clean up what commits left behind",
            schedule=events.Schedule.rate(Duration.minutes(SWEEP_MINUTES)),
            enabled=not self._settings.paused,
            targets=[
                targets.LambdaFunction(
                    maintain,
                    dead_letter_queue=self.dead_letters,
                    retry_attempts=_RETRIES,
                    max_event_age=Duration.hours(1),
                )
            ],
        )

    def _api(self) -> None:
        settings = self._settings
        self.api = api.HttpApi(
            self,
            "Api",
            api_name=settings.name,
            description="graveler",
            create_default_stage=False,
            cors_preflight=_cors(settings),
            disable_execute_api_endpoint=settings.only_domain or None,
        )
        self.endpoint = f"https://{settings.domain}" if settings.domain else self.api.api_endpoint
        self.export_value(self.api.api_endpoint)  # also while no Spark flow calls it: so its stack can come and go
        behind = {
            verb: integrations.HttpLambdaIntegration(verb.capitalize(), function, scope_permission_to_route=False)
            for verb, function in self._called.items()
            if verb not in _NOT_ASKED
        }
        limits = settings.throttled()
        if unknown := sorted(set(limits) - set(FUNCTION_OF)):
            raise SettingsError(
                f"throttles: {', '.join(unknown)}: no operation of the API; docs/openapi.json has them all"
            )
        routes = {
            route: self._route(
                api.HttpRouteKey.with_(route.path, api.HttpMethod[route.method]), route.name, behind[route.verb]
            )
            for route in gateway_routes(limits)
        }
        self._route(api.HttpRouteKey.DEFAULT, "CatchAll", behind[CATCH_ALL])
        # The integration's own permission is for stage/method/path, which this route is not:
        # https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-troubleshooting-lambda.html, and
        # https://github.com/aws/serverless-application-model/issues/1860
        lambda_.CfnPermission(
            self,
            "CatchAllPermission",
            action="lambda:InvokeFunction",
            function_name=self._called[CATCH_ALL].function_arn,
            principal="apigateway.amazonaws.com",
            source_arn=self.format_arn(
                service="execute-api", resource=self.api.api_id, resource_name=f"*/{api.HttpRouteKey.DEFAULT.key}"
            ),
        )
        self.access_log = vended_log(self, "AccessLog", settings, "apigateway")
        stage = api.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=api.ThrottleSettings(rate_limit=settings.requests_per_second, burst_limit=settings.burst),
        )
        resource = stage.node.default_child
        assert isinstance(resource, api.CfnStage)
        resource.access_log_settings = api.CfnStage.AccessLogSettingsProperty(
            destination_arn=self.access_log.log_group_arn, format=json.dumps(_LINE)
        )
        _throttle(resource, routes)
        if settings.web_acl:
            self._close_the_way_around()
        elif settings.domain:
            give_domain(self, settings, self.api, stage)

    def _close_the_way_around(self) -> None:
        """Have functions answer only what comes by CloudFront, and put that before them."""
        keys = front_door_keys(self, self._settings)
        asked = [verb for verb in self.functions if verb not in _NOT_ASKED]
        for verb in asked:
            self.functions[verb].add_environment("GRAVELER_FRONT_DOOR", ",".join(keys))
        give_front_door(self, self._settings, self.api, keys[0], [self._called[verb] for verb in asked])

    def _let_aws_in(self) -> None:
        """Tell the function that logs in which names its clients sign. It needs no right: AWS is asked with the clients' own
        signatures. It reaches STS, as it is in no network."""
        own = f"{self.api.api_id}.execute-api.{self.region}.{self.url_suffix}"
        names = [own if name == OWN_NAME else name for name in self._settings.aws_login]
        if names:
            self.functions["write"].add_environment("GRAVELER_AWS_LOGIN", ",".join(names))

    def _route(self, key: api.HttpRouteKey, name: str, integration: api.HttpRouteIntegration) -> api.HttpRoute:
        route = api.HttpRoute(
            self, f"Route{name[:1].upper()}{name[1:]}", http_api=self.api, route_key=key, integration=integration
        )
        acknowledge(
            route,
            "AwsSolutions-APIG4",
            "Keys and tokens are checked inside of the functions: an authorizer could only say 403, and clients want 401.",
        )
        return route


def _throttle(stage: api.CfnStage, routes: Mapping[GatewayRoute, api.HttpRoute]) -> None:
    """Give routes their limits. They must be there before the stage names them."""
    settings = {}
    for route, resource in routes.items():
        if route.limit is not None:
            rate, burst = route.limit
            settings[route.key] = {"ThrottlingRateLimit": rate, "ThrottlingBurstLimit": burst}
            stage.node.add_dependency(resource)
    if settings:
        stage.route_settings = settings


def _cors(settings: Settings) -> api.CorsPreflightOptions | None:
    """All headers of requests and responses, also those of metadata, whose names clients choose. A star stands for none of
    ``Authorization``, which has to be named:
    https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-cors.html and https://fetch.spec.whatwg.org/#http-responses"""
    if not settings.cors_origins:
        return None
    return api.CorsPreflightOptions(
        allow_origins=list(settings.cors_origins),
        allow_methods=[api.CorsHttpMethod.ANY],
        allow_headers=["authorization", "*"],
        expose_headers=["*"],
        max_age=Duration.hours(1),
    )
