"""Calls that the templates themselves ask services to make: each needs a right that no emulator asks for.

The developer guides say what a service does, and in whose name; each entry has the address.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.infra.iam.conditions import UnknownError
from tests.infra.iam.policies import Principal, Request
from tests.infra.iam.templates import ACCOUNT, REGION, Stacks, definition, function_arn

_SECURE: Final = {"aws:securetransport": "true", "aws:requestedregion": REGION}


def declared_calls(stacks: Stacks) -> Iterator[Request]:
    """All of them. :class:`UnknownError` if a resource asks for what is not known."""
    for find in _FINDERS:
        yield from find(stacks)


def as_service(service: str, action: str, resource: str, source: str, reason: str) -> Request:
    """A call that a service makes for a resource of this account, of which it says the ARN."""
    keys = {"aws:sourcearn": source, "aws:sourceaccount": ACCOUNT, "aws:principalisawsservice": "true"}
    return Request(Principal(f"{service}.amazonaws.com"), action, resource, {**_SECURE, **keys}, reason)


def as_role(role: str, action: str, resource: str, reason: str, **keys: str) -> Request:
    """A call that a service makes as a role; of keys, ``__`` stands for the colon."""
    context = {name.replace("__", ":"): value for name, value in keys.items()}
    return Request(
        Principal(role), action, resource, {**_SECURE, "aws:principalisawsservice": "false", **context}, reason
    )


def _assumed(service: str, role: str, reason: str, source: str = "") -> Request:
    return as_service(service, "sts:AssumeRole", role, source, reason)


def _routes(stacks: Stacks) -> Iterator[Request]:
    """``…:API/STAGE/METHOD/path``, and ``…:API/STAGE/$default`` of the route that catches all:
    https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html and
    https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-troubleshooting-lambda.html."""
    integrations = {}
    for stack, logical, properties in stacks.each("AWS::ApiGatewayV2::Integration"):
        if properties["IntegrationType"] != "AWS_PROXY" or "CredentialsArn" in properties:
            raise UnknownError(f"{stack}/{logical}: an integration of type {properties['IntegrationType']}")
        integrations[stacks.reference(stack, logical)] = function_arn(_invoked(properties["IntegrationUri"]))
    stages = {
        properties["ApiId"]: properties["StageName"] for _, _, properties in stacks.each("AWS::ApiGatewayV2::Stage")
    }
    for _, _, properties in stacks.each("AWS::ApiGatewayV2::Route"):
        api, key = properties["ApiId"], properties["RouteKey"]
        method, space, path = key.partition(" ")
        end = f"{method}{path}" if space else key
        source = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{api}/{stages[api]}/{end}"
        function = integrations[properties["Target"].removeprefix("integrations/")]
        yield as_service("apigateway", "lambda:InvokeFunction", function, source, f"route {key}")


def _invoked(uri: str) -> str:
    """The function in an integration's address."""
    return uri.partition("/functions/")[2].removesuffix("/invocations") if "/functions/" in uri else uri


def _rules(stacks: Stacks) -> Iterator[Request]:
    """https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html and, for dead letters,
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html."""
    for stack, logical, properties in stacks.each("AWS::Events::Rule"):
        rule, reason = stacks.arn(stack, logical), f"rule {stack}/{logical}"
        for target in properties.get("Targets", ()):
            service = target["Arn"].split(":")[2]
            if "RoleArn" in target:
                yield _assumed("events", target["RoleArn"], reason, rule)
            match service:
                case "lambda":
                    yield as_service("events", "lambda:InvokeFunction", target["Arn"], rule, reason)
                case "sqs":
                    yield as_service("events", "sqs:SendMessage", target["Arn"], rule, reason)
                case "states":
                    yield as_role(target["RoleArn"], "states:StartExecution", target["Arn"], reason)
                case _:
                    raise UnknownError(f"{reason}: a target of {service}")
            if "DeadLetterConfig" in target:
                letters = target["DeadLetterConfig"]["Arn"]
                yield as_service("events", "sqs:SendMessage", letters, rule, f"{reason}, dead letters")


def _sources(stacks: Stacks) -> Iterator[Request]:
    """Lambda asks the queue as the function:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html#events-sqs-permissions."""
    roles = _roles_of_functions(stacks)
    for stack, logical, properties in stacks.each("AWS::Lambda::EventSourceMapping"):
        queue = properties["EventSourceArn"]
        if queue.split(":")[2] != "sqs":
            raise UnknownError(f"{stack}/{logical}: an event source {queue}")
        role = roles[function_arn(properties["FunctionName"])]
        for action in ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes"):
            yield as_role(role, f"sqs:{action}", queue, f"event source {stack}/{logical}")


def _destinations(stacks: Stacks) -> Iterator[Request]:
    """https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html."""
    roles = _roles_of_functions(stacks)
    actions = {"sqs": "sqs:SendMessage", "sns": "sns:Publish"}
    for stack, logical, properties in stacks.each("AWS::Lambda::EventInvokeConfig"):
        for way in properties.get("DestinationConfig", {}).values():
            arn = way["Destination"]
            action = actions.get(arn.split(":")[2])
            if action is None:
                raise UnknownError(f"{stack}/{logical}: a destination {arn}")
            yield as_role(
                roles[function_arn(properties["FunctionName"])], action, arn, f"destination {stack}/{logical}"
            )


def _roles_of_functions(stacks: Stacks) -> dict[str, str]:
    """By the ARNs of functions, and of their aliases."""
    roles = {
        stacks.arn(stack, logical): properties["Role"]
        for stack, logical, properties in stacks.each("AWS::Lambda::Function")
    }
    for stack, logical, properties in stacks.each("AWS::Lambda::Alias"):
        roles[stacks.arn(stack, logical)] = roles[function_arn(properties["FunctionName"])]
    return roles


_NETWORK: Final = (
    "CreateNetworkInterface",
    "DescribeNetworkInterfaces",
    "DescribeSubnets",
    "DeleteNetworkInterface",
    "AssignPrivateIpAddresses",
    "UnassignPrivateIpAddresses",
)


def _functions(stacks: Stacks) -> Iterator[Request]:
    """What Lambda does as a function around it: logs, network, file system, traces.
    https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs.html,
    https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions,
    https://docs.aws.amazon.com/lambda/latest/dg/configuration-filesystem.html#configuration-filesystem-permissions,
    https://docs.aws.amazon.com/lambda/latest/dg/services-xray.html."""
    points = {stacks.arn(*at[:2]): at for at in stacks.each("AWS::EFS::AccessPoint")}
    for stack, logical, properties in stacks.each("AWS::Lambda::Function"):
        role, reason = properties["Role"], f"function {stack}/{logical}"
        yield _assumed("lambda", role, reason, stacks.arn(stack, logical))
        group = properties.get("LoggingConfig", {}).get("LogGroup")
        if group is None:  # Lambda makes one
            group = f"/aws/lambda/{stacks.name(stack, logical)}"
            own = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{group}"
            yield as_role(role, "logs:CreateLogGroup", own, reason)
        stream = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{group}:log-stream:2026/01/01/[$LATEST]0"
        yield as_role(role, "logs:CreateLogStream", stream, reason)
        yield as_role(role, "logs:PutLogEvents", stream, reason)
        if "VpcConfig" in properties:
            for action in _NETWORK:
                yield as_role(role, f"ec2:{action}", "*", reason)
        if properties.get("TracingConfig", {}).get("Mode") == "Active":
            for action in ("PutTraceSegments", "PutTelemetryRecords"):
                yield as_role(role, f"xray:{action}", "*", reason)
        if "DeadLetterConfig" in properties:
            raise UnknownError(f"{reason}: dead letters of its own")
        for mount in properties.get("FileSystemConfigs", ()):
            _, _, point = points[mount["Arn"]]
            system = f"arn:aws:elasticfilesystem:{REGION}:{ACCOUNT}:file-system/{point['FileSystemId']}"
            for action in ("ClientMount", "ClientWrite"):
                keys = {
                    "elasticfilesystem__accesspointarn": mount["Arn"],
                    "elasticfilesystem__accessedviamounttarget": "true",
                }
                yield as_role(role, f"elasticfilesystem:{action}", system, reason, **keys)


def _alarms(stacks: Stacks) -> Iterator[Request]:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Notify_Users_Alarm_Changes.html."""
    for stack, logical, properties in stacks.each("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"):
        for list_of in ("AlarmActions", "OKActions", "InsufficientDataActions"):
            for arn in properties.get(list_of, ()):
                if arn.split(":")[2] != "sns":
                    raise UnknownError(f"alarm {stack}/{logical}: action {arn}")
                source = f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{stacks.name(stack, logical)}"
                yield as_service("cloudwatch", "sns:Publish", arn, source, f"alarm {stack}/{logical}")


def _budgets(stacks: Stacks) -> Iterator[Request]:
    """https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-sns-policy.html."""
    for stack, logical, properties in stacks.each("AWS::Budgets::Budget"):
        for notification in properties.get("NotificationsWithSubscribers", ()):
            for subscriber in notification["Subscribers"]:
                if subscriber["SubscriptionType"] == "SNS":
                    source = f"arn:aws:budgets::{ACCOUNT}:budget/{stacks.name(stack, logical)}"
                    yield as_service(
                        "budgets", "sns:Publish", subscriber["Address"], source, f"budget {stack}/{logical}"
                    )


def _notifications(stacks: Stacks) -> Iterator[Request]:
    """Events of a bucket to EventBridge need no right; other notifications are not known:
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/grant-destinations-permissions-to-s3.html."""
    for stack, logical, properties in stacks.each("AWS::S3::Bucket"):
        unread = set(properties.get("NotificationConfiguration", {})) - {"EventBridgeConfiguration"}
        if unread or "ReplicationConfiguration" in properties or "LoggingConfiguration" in properties:
            raise UnknownError(f"bucket {stack}/{logical}: {', '.join(sorted(unread)) or 'replication or logging'}")
    yield from ()


_DELIVERY: Final = (
    "CreateLogDelivery",
    "GetLogDelivery",
    "UpdateLogDelivery",
    "DeleteLogDelivery",
    "ListLogDeliveries",
    "PutResourcePolicy",
    "DescribeResourcePolicies",
    "DescribeLogGroups",
)
"""https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html#cloudwatch-iam-policy"""


def _machines(stacks: Stacks) -> Iterator[Request]:
    """https://docs.aws.amazon.com/step-functions/latest/dg/service-integration-iam-templates.html"""
    for stack, logical, properties in stacks.each("AWS::StepFunctions::StateMachine"):
        arn, role = stacks.arn(stack, logical), properties["RoleArn"]
        yield _assumed("states", role, f"state machine {stack}/{logical}", arn)
        if properties.get("TracingConfiguration", {}).get("Enabled"):
            for action in ("PutTraceSegments", "PutTelemetryRecords", "GetSamplingRules", "GetSamplingTargets"):
                yield as_role(role, f"xray:{action}", "*", f"state machine {stack}/{logical}")
        if properties.get("LoggingConfiguration", {}).get("Level", "OFF") != "OFF":
            for action in _DELIVERY:
                yield as_role(role, f"logs:{action}", "*", f"state machine {stack}/{logical}")
        for name, state in _states(definition(properties)):
            for action, resource, keys in _of_state(state, arn):
                yield as_role(role, action, resource, f"state {name} of {stack}/{logical}", **keys)


def _states(described: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, state in described["States"].items():
        yield name, state
        if "ItemProcessor" in state:
            yield from _states(state["ItemProcessor"])
        for branch in state.get("Branches", ()):
            yield from _states(branch)


Call = tuple[str, str, dict[str, str]]


def _of_state(state: Mapping[str, Any], machine: str) -> Iterator[Call]:
    if state["Type"] == "Map" and state["ItemProcessor"].get("ProcessorConfig", {}).get("Mode") == "DISTRIBUTED":
        if set(state) & {"ItemReader", "ResultWriter"}:
            raise UnknownError("a map that reads or writes S3 itself")
        execution = f"{machine.replace(':stateMachine:', ':execution:')}:0"
        yield "states:StartExecution", machine, {}
        yield "states:DescribeExecution", execution, {}
        yield "states:StopExecution", execution, {}
    if state["Type"] == "Task":
        integration = state["Resource"].partition(":states:::")[2]
        if integration not in _TASKS:
            raise UnknownError(f"a task of {state['Resource']}")
        yield from _TASKS[integration](state["Parameters"], machine)


def _invoke(parameters: Mapping[str, Any], machine: str) -> Iterator[Call]:
    yield "lambda:InvokeFunction", function_arn(parameters["FunctionName"]), {}


def _job_run(parameters: Mapping[str, Any], machine: str) -> Iterator[Call]:
    """https://docs.aws.amazon.com/step-functions/latest/dg/connect-emr-serverless.html."""
    application = f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/{parameters['ApplicationId']}"
    rule = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/StepFunctionsGetEventsForEMRServerlessJobRule"
    yield "emr-serverless:StartJobRun", application, {}
    yield "emr-serverless:GetJobRun", f"{application}/jobruns/0", {}
    yield "emr-serverless:CancelJobRun", f"{application}/jobruns/0", {}
    yield "iam:PassRole", parameters["ExecutionRoleArn"], {"iam__passedtoservice": "emr-serverless.amazonaws.com"}
    for action in ("PutTargets", "PutRule", "DescribeRule"):
        yield f"events:{action}", rule, {}


def _http(parameters: Mapping[str, Any], machine: str) -> Iterator[Call]:
    """https://docs.aws.amazon.com/step-functions/latest/dg/call-https-apis.html#connect-http-task-permissions."""
    pattern = parameters["ApiEndpoint.$"].partition("'")[2].partition("'")[0]
    connection = parameters["Authentication"]["ConnectionArn"].split("/")[1]
    secret = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:events!connection/{connection}/of-the-secret-AbCdEf"
    yield "states:InvokeHTTPEndpoint", machine, {"states__httpendpoint": pattern.format("/repositories")}
    yield "events:RetrieveConnectionCredentials", parameters["Authentication"]["ConnectionArn"], {}
    yield "secretsmanager:GetSecretValue", secret, {}
    yield "secretsmanager:DescribeSecret", secret, {}


_TASKS: Final[dict[str, Callable[[Mapping[str, Any], str], Iterator[Call]]]] = {
    "lambda:invoke": _invoke,
    "lambda:invoke.waitForTaskToken": _invoke,
    "emr-serverless:startJobRun.sync": _job_run,
    "http:invoke": _http,
}


_FINDERS: Final[tuple[Callable[[Stacks], Iterator[Request]], ...]] = (
    _routes,
    _rules,
    _sources,
    _destinations,
    _functions,
    _alarms,
    _budgets,
    _notifications,
    _machines,
)
