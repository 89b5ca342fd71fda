"""The stacks' templates with their intrinsics resolved, and the policies in them.

Resources have the names that an emulator gave them, or names made up here where nothing is deployed.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.infra.iam.conditions import UnknownError
from tests.infra.iam.policies import VERSION, Policies, Statement, parse

ACCOUNT: Final = "000000000000"
REGION: Final = "us-east-1"

Template = Mapping[str, Any]

_PSEUDO: Final = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::Partition": "aws",
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/graveler/0",
    "AWS::URLSuffix": "amazonaws.com",
}
_ARN: Final = f"arn:aws:{{service}}:{REGION}:{ACCOUNT}:{{name}}"
_ARNS: Final[dict[str, str]] = {
    "AWS::DynamoDB::Table": _ARN.format(service="dynamodb", name="table/{}"),
    "AWS::EC2::VPC": _ARN.format(service="ec2", name="vpc/{}"),
    "AWS::EFS::AccessPoint": _ARN.format(service="elasticfilesystem", name="access-point/{}"),
    "AWS::EFS::FileSystem": _ARN.format(service="elasticfilesystem", name="file-system/{}"),
    "AWS::EMRServerless::Application": _ARN.format(service="emr-serverless", name="/applications/{}"),
    "AWS::Events::Rule": _ARN.format(service="events", name="rule/{}"),
    "AWS::IAM::ManagedPolicy": f"arn:aws:iam::{ACCOUNT}:policy/{{}}",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/{{}}",
    "AWS::KMS::Key": _ARN.format(service="kms", name="key/{}"),
    "AWS::Lambda::Alias": _ARN.format(service="lambda", name="function:{}"),
    "AWS::Lambda::Function": _ARN.format(service="lambda", name="function:{}"),
    "AWS::Logs::LogGroup": _ARN.format(service="logs", name="log-group:{}:*"),
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::SNS::Topic": _ARN.format(service="sns", name="{}"),
    "AWS::SQS::Queue": _ARN.format(service="sqs", name="{}"),
    "AWS::SecretsManager::Secret": _ARN.format(service="secretsmanager", name="secret:{}"),
    "AWS::StepFunctions::StateMachine": _ARN.format(service="states", name="stateMachine:{}"),
    "AWS::CloudWatch::Alarm": _ARN.format(service="cloudwatch", name="alarm:{}"),
}
"""Of a resource by its name. Formats: https://docs.aws.amazon.com/service-authorization/latest/reference/, by service."""

_REFERENCE_IS_ARN: Final = frozenset(
    (
        "AWS::IAM::ManagedPolicy",
        "AWS::Lambda::Alias",
        "AWS::SNS::Topic",
        "AWS::SecretsManager::Secret",
        "AWS::StepFunctions::StateMachine",
    )
)
_QUEUE_URL: Final = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{{}}"
_NAME_ATTRIBUTES: Final = frozenset(("QueueName", "TopicName", "Name", "ApplicationId", "AccessPointId", "GroupId"))
_POLICIES: Final = frozenset(
    (
        "AssumeRolePolicyDocument",
        "BucketPolicy",
        "FileSystemPolicy",
        "KeyPolicy",
        "ManagedPolicyArns",
        "PermissionsBoundary",
        "Policies",
        "PolicyDocument",
        "ResourcePolicy",
    )
)
"""Properties that hold policies."""

_READ: Final = {
    "AWS::EFS::FileSystem": {"FileSystemPolicy"},
    "AWS::IAM::ManagedPolicy": {"PolicyDocument"},
    "AWS::IAM::Policy": {"PolicyDocument"},
    "AWS::IAM::Role": {"AssumeRolePolicyDocument", "ManagedPolicyArns", "Policies"},
    "AWS::KMS::Key": {"KeyPolicy"},
    "AWS::S3::BucketPolicy": {"PolicyDocument"},
    "AWS::SNS::TopicPolicy": {"PolicyDocument"},
    "AWS::SQS::QueuePolicy": {"PolicyDocument"},
}
"""Those of which this module makes policies."""


@dataclass(frozen=True)
class Stacks:
    """Templates by the names of their stacks. ``physical`` gives the physical ID of a resource by its stack and logical ID; None
    where nothing is deployed."""

    templates: Mapping[str, Template]
    physical: Callable[[str, str], str] | None = None
    _exports: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for stack, template in self.templates.items():
            for output in template.get("Outputs", {}).values():
                if "Export" in output:
                    self._exports[output["Export"]["Name"]] = (stack, output["Value"])

    def each(self, *kinds: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Stack, logical ID and resolved properties of the resources of these types."""
        for stack, template in self.templates.items():
            for logical, resource in template["Resources"].items():
                if resource["Type"] in kinds:
                    yield stack, logical, self.resolve(stack, resource.get("Properties", {}))

    def kind(self, stack: str, logical: str) -> str:
        """Type of a resource."""
        kind: str = self.templates[stack]["Resources"][logical]["Type"]
        return kind

    def name(self, stack: str, logical: str) -> str:
        """A resource's name, without what its ``Ref`` puts before it."""
        if self.physical is None:
            return f"{stack}-{logical}"
        return re.split(r"[/:]", self.physical(stack, logical))[-1]

    def arn(self, stack: str, logical: str) -> str:
        """A resource's ARN."""
        kind = self.kind(stack, logical)
        if kind not in _ARNS:
            raise UnknownError(f"the ARN of a {kind}")
        if kind == "AWS::Logs::LogGroup" and self.physical is not None:
            return _ARNS[kind].format(self.physical(stack, logical))  # its name may hold slashes
        if kind == "AWS::Lambda::Alias":  # its function's, and its own name
            properties = self.resolve(stack, self.templates[stack]["Resources"][logical]["Properties"])
            return _ARNS[kind].format(f"{properties['FunctionName']}:{properties['Name']}")
        return _ARNS[kind].format(self.name(stack, logical))

    def reference(self, stack: str, logical: str) -> str:
        """What ``Ref`` gives."""
        kind = self.kind(stack, logical)
        if kind in _REFERENCE_IS_ARN:
            return self.arn(stack, logical)
        if kind == "AWS::SQS::Queue":
            return _QUEUE_URL.format(self.name(stack, logical))
        if kind == "AWS::Logs::LogGroup" and self.physical is not None:
            return self.physical(stack, logical)
        return self.name(stack, logical)

    def resolve(self, stack: str, value: Any) -> Any:
        """A value of a stack's template without intrinsics; :class:`UnknownError` if there is one that is not known."""
        if isinstance(value, list):
            return [self.resolve(stack, each) for each in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name == "Ref":
                return self._reference(stack, argument)
            if name.startswith("Fn::"):
                return self._function(stack, name, argument)
        return {name: self.resolve(stack, argument) for name, argument in value.items()}

    def _reference(self, stack: str, name: str) -> str:
        if name in _PSEUDO:
            return _PSEUDO[name]
        if name not in self.templates[stack]["Resources"]:
            raise UnknownError(f"{stack}: Ref of {name}")
        return self.reference(stack, name)

    def _function(self, stack: str, name: str, argument: Any) -> Any:
        match name:
            case "Fn::GetAtt":
                return self._attribute(stack, *(argument.split(".", 1) if isinstance(argument, str) else argument))
            case "Fn::Join":
                separator, parts = argument
                return separator.join(str(each) for each in self.resolve(stack, parts))
            case "Fn::Sub" if isinstance(argument, str):
                return re.sub(r"\$\{([^!}]+)\}", lambda found: self._substituted(stack, found[1]), argument)
            case "Fn::ImportValue":
                if argument not in self._exports:
                    raise UnknownError(f"{stack}: imports {argument}, which no stack exports")
                return self.resolve(*self._exports[argument])
            case "Fn::Select":
                index, values = argument
                return self.resolve(stack, values)[int(index)]
            case "Fn::Split":
                separator, text = argument
                return self.resolve(stack, text).split(separator)
            case "Fn::GetAZs":
                return [f"{REGION}{letter}" for letter in "abc"]
        raise UnknownError(f"{stack}: {name} of {argument!r}")

    def _substituted(self, stack: str, name: str) -> str:
        logical, dot, attribute = name.partition(".")
        return self._attribute(stack, logical, attribute) if dot else self._reference(stack, name)

    def _attribute(self, stack: str, logical: str, attribute: str) -> str:
        kind = self.kind(stack, logical)
        if attribute == "Arn" or (attribute, kind) == ("TopicArn", "AWS::SNS::Topic"):
            return self.arn(stack, logical)
        if attribute in _NAME_ATTRIBUTES:
            return self.name(stack, logical)
        if (kind, attribute) == ("AWS::Lambda::Version", "Version"):
            return "1"
        if (kind, attribute) == ("AWS::ApiGatewayV2::Api", "ApiEndpoint"):
            return f"https://{self.name(stack, logical)}.execute-api.{REGION}.amazonaws.com"
        if kind.startswith(("AWS::EC2::", "AWS::ApiGatewayV2::")) or attribute == "DomainName":
            return f"{self.name(stack, logical)}.{attribute}"  # appears in no policy
        raise UnknownError(f"{stack}: {attribute} of a {kind}")

    def policies(self) -> Policies:
        """All policies of the stacks. :class:`UnknownError` if a resource has one in a property that is not read."""
        roles: dict[str, tuple[Statement, ...]] = {}
        resources: dict[str, tuple[Statement, ...]] = {}
        self._refuse_unread()
        managed = _aws_managed() | {
            self.arn(stack, logical): parse(properties["PolicyDocument"], f"{stack}/{logical}")
            for stack, logical, properties in self.each("AWS::IAM::ManagedPolicy")
        }
        for stack, logical, properties in self.each("AWS::IAM::Role"):
            arn = self.arn(stack, logical)
            trusting = _on(arn, properties["AssumeRolePolicyDocument"])
            resources[arn] = parse(trusting, f"{stack}/{logical}, who may assume it")
            roles[arn] = tuple(
                statement
                for inline in properties.get("Policies", ())
                for statement in parse(inline["PolicyDocument"], f"{stack}/{logical}/{inline['PolicyName']}")
            )
            for policy in properties.get("ManagedPolicyArns", ()):
                if policy not in managed:
                    raise UnknownError(f"{stack}/{logical}: the managed policy {policy}")
                roles[arn] += managed[policy]
        for stack, logical, properties in self.each("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            if properties.get("Users") or properties.get("Groups"):
                raise UnknownError(f"{stack}/{logical}: a policy of users or groups")
            for role in properties.get("Roles", ()):
                arn = _ARNS["AWS::IAM::Role"].format(role)
                roles[arn] = roles.get(arn, ()) + parse(properties["PolicyDocument"], f"{stack}/{logical}")
        for arn, statements in self._of_resources():
            resources[arn] = resources.get(arn, ()) + statements
        return Policies(roles, resources)

    def _refuse_unread(self) -> None:
        for stack, template in self.templates.items():
            for logical, resource in template["Resources"].items():
                unread = (_POLICIES & set(resource.get("Properties", {}))) - _READ.get(resource["Type"], set())
                endpoint = resource["Type"] == "AWS::EC2::VPCEndpoint"
                if unread and not endpoint:
                    raise UnknownError(f"{stack}/{logical}: {', '.join(sorted(unread))} of a {resource['Type']}")

    def _of_resources(self) -> Iterator[tuple[str, tuple[Statement, ...]]]:
        for stack, logical, properties in self.each("AWS::S3::BucketPolicy"):
            yield f"arn:aws:s3:::{properties['Bucket']}", parse(properties["PolicyDocument"], f"{stack}/{logical}")
        for stack, logical, properties in self.each("AWS::SQS::QueuePolicy"):
            for url in properties["Queues"]:
                arn = _ARNS["AWS::SQS::Queue"].format(url.rpartition("/")[2])
                yield arn, parse(properties["PolicyDocument"], f"{stack}/{logical}")
        for stack, logical, properties in self.each("AWS::SNS::TopicPolicy"):
            for topic in properties["Topics"]:
                yield topic, parse(properties["PolicyDocument"], f"{stack}/{logical}")
        for stack, logical, properties in self.each("AWS::KMS::Key"):
            arn = self.arn(stack, logical)
            yield arn, parse(_on(arn, properties["KeyPolicy"]), f"{stack}/{logical}")
        for stack, logical, properties in self.each("AWS::EFS::FileSystem"):
            if "FileSystemPolicy" in properties:
                arn = self.arn(stack, logical)
                yield arn, parse(_on(arn, properties["FileSystemPolicy"]), f"{stack}/{logical}")
        for stack, logical, properties in self.each("AWS::Lambda::Permission"):
            arn = function_arn(properties["FunctionName"])
            yield arn, parse(_permission(arn, properties), f"{stack}/{logical}")


def _aws_managed() -> dict[str, tuple[Statement, ...]]:
    """AWS's own policies that roles have here:
    https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSLambdaBasicExecutionRole.html."""
    name = "service-role/AWSLambdaBasicExecutionRole"
    actions = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"]
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    return {f"arn:aws:iam::aws:policy/{name}": parse({"Version": VERSION, "Statement": [statement]}, name)}


def function_arn(function: str) -> str:
    """A function's ARN by its ARN or its name."""
    return function if function.startswith("arn:") else _ARNS["AWS::Lambda::Function"].format(function)


_PERMISSION: Final = {"Action", "FunctionName", "Principal", "SourceArn", "SourceAccount"}


def _permission(arn: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """The policy that Lambda makes of a permission:
    https://docs.aws.amazon.com/lambda/latest/api/API_AddPermission.html."""
    if set(properties) - _PERMISSION:
        raise UnknownError(f"a permission with {', '.join(sorted(set(properties) - _PERMISSION))}")
    conditions = {}
    if "SourceArn" in properties:
        conditions["ArnLike"] = {"aws:SourceArn": properties["SourceArn"]}
    if "SourceAccount" in properties:
        conditions["StringEquals"] = {"aws:SourceAccount": properties["SourceAccount"]}
    kind = "Service" if properties["Principal"].endswith(".amazonaws.com") else "AWS"
    statement = {
        "Effect": "Allow",
        "Principal": {kind: properties["Principal"]},
        "Action": properties["Action"],
        "Resource": arn,
        "Condition": conditions,
    }
    return {"Version": VERSION, "Statement": [statement]}


def _on(arn: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """A document whose statements are about the resource that has it."""
    return {**document, "Statement": [{**each, "Resource": arn} for each in document["Statement"]]}


def definition(properties: Mapping[str, Any]) -> dict[str, Any]:
    """A state machine's, of its resolved properties."""
    described: dict[str, Any] = json.loads(properties["DefinitionString"])
    return described
