"""What a deployment's roles must not be able to do, whatever their policies say.

Access keys, and what belongs to them, are changed by the functions ``write`` and ``setup`` alone, and read by those that check
credentials. Objects are written by ``write`` and Spark jobs; other functions that write put graveler's own files only, and of
those, the ones that change Iceberg tables put files of tables. The flow of Spark jobs reads the secret of its own connection.
Clients of tables get no more than files of tables, and sources of imports to read.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.infra.iam.conditions import UnknownError
from tests.infra.iam.declared import as_role
from tests.infra.iam.policies import Request
from tests.infra.iam.templates import ACCOUNT, REGION, Stacks, definition

READS: Final = ("GetItem", "BatchGetItem", "Query")
WRITES: Final = ("PutItem", "DeleteItem", "BatchWriteItem", "ConditionCheckItem", "UpdateItem")

SECRETS: Final = ("access-keys", "access-principals", "access", "access/ended-tokens")
"""Partitions that nobody reads but who checks credentials."""
OF_KEYS: Final = (*SECRETS, "lake")
OF_REPOSITORIES: Final = (
    *(f"0123456789abcdef/{what}" for what in ("branch/0", "commit/a", "staged/0/access-keys", "request/1")),
    *("repositories", "deleted-repositories", "bare-repositories", "namespaces", "namespaces-above"),
    *("ingest/rules", "ingest/waiting", "requests", "lake-rules"),
)

CHECK_RUNS: Final = "0123456789abcdef/check-runs"
"""Where verdicts are kept, the only ones that the function of checks writes."""

CHECK_CREDENTIALS: Final = ("Read", "Write", "Commit", "Merge", "Diff", "Catalog", "Setup")
CHANGE_KEYS: Final = ("Write", "Setup")
WRITE_OBJECTS: Final = ("Write", "Job")
WRITE_TABLES: Final = (*WRITE_OBJECTS, "Merge", "Catalog", "Operate")
WRITE_METADATA: Final = (*WRITE_TABLES, "Commit", "Maintain", "Ingest")

NAMESPACES: Final = ("", "quick/", "a/b/c/")
METADATA: Final = tuple(
    f"{namespace}_graveler/{file}"
    for namespace in NAMESPACES
    for file in ("repository", "ranges/0", "metaranges/0", "commits/0", "operations/0/plans/0", "dumps/0/manifest")
)
TABLES: Final = tuple(
    f"{namespace}tables/{file}"
    for namespace in NAMESPACES[1:]  # a repository's is never a whole bucket
    for file in ("namespace", "0123456789abcdefghij/0123456789abcdefghij/metadata/0.metadata.json")
)
DATA: Final = (
    *(f"{namespace}data/g/0123456789abcdef" for namespace in NAMESPACES),
    *("_graveler", "_graveler0/x", "quick/_graveler", "quick/x_graveler/y", "quick/_gravelerx/y", "landed.csv"),
    *("quick/tables", "quick/tables0/x", "quick/xtables/y"),
)


def roles(stacks: Stacks) -> dict[str, str]:
    """The ARNs of the roles of functions and Spark jobs, by their names: ``Commit``, ``Job``."""
    arns = {}
    for stack, logical, _ in stacks.each("AWS::IAM::Role"):
        name, role, _ = logical.partition("Role")
        if role and (name.startswith("Functions") or name == "Job"):
            arns[name.removeprefix("Functions")] = stacks.arn(stack, logical)
    return arns


def table_request(role: str, action: str, table: str, *partitions: str) -> Request:
    """A request about items in these partitions."""
    request = as_role(role, f"dynamodb:{action}", table, f"{action} of {', '.join(partitions) or 'no partition'}")
    keys: Mapping[str, Any] = {"dynamodb:leadingkeys": partitions} if partitions else {}
    return Request(request.principal, request.action, request.resource, {**request.context, **keys}, request.reason)


def breaches(stacks: Stacks) -> Iterator[str]:
    """What roles may do beyond their limits, each in a sentence."""
    policies = stacks.policies()
    for request in (*_forbidden(stacks), *_foreign_secrets(stacks), *_table_requests(stacks, needed=False)):
        if not policies.decide(request).refusal:
            yield f"{request} is allowed"


def gaps(stacks: Stacks) -> Iterator[str]:
    """What roles need within their limits, and may not do, each in a sentence."""
    policies = stacks.policies()
    for request in (*_needed(stacks), *_table_requests(stacks, needed=True)):
        if refusal := policies.decide(request).refusal:
            yield refusal


def table_of(stacks: Stacks) -> str:
    """The ARN of the lake's table."""
    (table,) = (stacks.arn(stack, logical) for stack, logical, _ in stacks.each("AWS::DynamoDB::Table"))
    return table


def stores(stacks: Stacks) -> list[str]:
    """The ARNs of the lake's bucket, and of data buckets and folders in them."""
    places: set[str] = set()
    for _, _, properties in stacks.each("AWS::Lambda::Function"):
        variables = properties.get("Environment", {}).get("Variables", {})
        if "GRAVELER_OBJECTS" in variables:
            places.add(variables["GRAVELER_OBJECTS"].removeprefix("s3://"))
            places.update(place for place in variables["GRAVELER_DATA_BUCKETS"].split(",") if place)
    if not places:
        raise UnknownError("no function has a bucket")
    return [f"arn:aws:s3:::{place.rstrip('/')}" for place in sorted(places)]


def _forbidden(stacks: Stacks) -> Iterator[Request]:
    table = table_of(stacks)
    for name, role in roles(stacks).items():
        for action in (*READS, *WRITES):
            partitions: tuple[str, ...] = OF_KEYS if action in WRITES else SECRETS
            if name in CHANGE_KEYS or (action in READS and name in CHECK_CREDENTIALS):
                partitions = ()
            for partition in partitions:
                yield table_request(role, action, table, partition)
                yield table_request(role, action, table, "repositories", partition)
            if partitions:  # ForAllValues holds for no values
                yield table_request(role, action, table)
            if name == "Setup":
                yield from (table_request(role, action, table, partition) for partition in OF_REPOSITORIES)
            if name == "Check":
                others = (*OF_REPOSITORIES, "0123456789abcdef/statuses", "0123456789abcdef/candidates")
                for partition in others if action in WRITES else ():
                    yield table_request(role, action, table, partition)
                    yield table_request(role, action, table, CHECK_RUNS, partition)
        for action in ("Scan", "DeleteTable", "UpdateTable"):
            yield table_request(role, action, table)
        yield table_request(role, "PartiQLSelect", table, "access-keys")
        for store in stores(stacks):
            if name not in WRITE_OBJECTS:
                yield from (as_role(role, "s3:PutObject", f"{store}/{key}", "data") for key in DATA)
            if name not in WRITE_METADATA:
                yield from (as_role(role, "s3:PutObject", f"{store}/{key}", "metadata") for key in METADATA)
            if name not in WRITE_TABLES:
                yield from (as_role(role, "s3:PutObject", f"{store}/{key}", "files of tables") for key in TABLES)


def _needed(stacks: Stacks) -> Iterator[Request]:
    table = table_of(stacks)
    for name, role in roles(stacks).items():
        writes = (*WRITES[:4],) if name in WRITE_METADATA else ("PutItem",) if name == "Setup" else ()
        for action in (*READS, *writes):
            repositories = OF_REPOSITORIES if name != "Setup" else ()
            keys: tuple[str, ...] = ()
            if name in CHANGE_KEYS or (action in READS and name in CHECK_CREDENTIALS):
                keys = OF_KEYS
            elif action in READS:
                keys = ("lake",)
            yield from (table_request(role, action, table, partition) for partition in (*repositories, *keys))
            if "Batch" in action and repositories:
                yield table_request(role, action, table, *repositories)
        if name == "Check":
            yield table_request(role, "PutItem", table, CHECK_RUNS)
        for store in stores(stacks):
            if name in WRITE_METADATA:
                yield from (as_role(role, "s3:PutObject", f"{store}/{key}", "metadata") for key in METADATA)
            if name in WRITE_TABLES:
                yield from (as_role(role, "s3:PutObject", f"{store}/{key}", "files of tables") for key in TABLES)
            if name in WRITE_OBJECTS:
                yield from (as_role(role, "s3:PutObject", f"{store}/{key}", "data") for key in DATA)
            if name != "Setup":
                files = (*DATA, *METADATA, *TABLES)
                yield from (as_role(role, "s3:GetObject", f"{store}/{key}", "read") for key in files)


def _table_requests(stacks: Stacks, *, needed: bool) -> Iterator[Request]:
    """What clients of tables need, or must not be able to do, with the credentials of the role for them, in the lake's bucket;
    nothing if there is no such role. The right to assume it is the function ``catalog``'s alone."""
    for stack, logical, _ in stacks.each("AWS::IAM::Role"):
        if not logical.startswith("TableCredentials"):
            continue
        role = stacks.arn(stack, logical)
        for name, function in roles(stacks).items():
            if (name == "Catalog") is needed:
                yield as_role(function, "sts:AssumeRole", role, "credentials of tables")
        on_tables = ("GetObject", "PutObject", "AbortMultipartUpload", "ListMultipartUploadParts")
        actions = on_tables if needed else ("DeleteObject", "DeleteObjectVersion", "GetObjectVersion", "PutObjectAcl")
        for store in stores(stacks):
            yield from (
                as_role(role, f"s3:{action}", f"{store}/{key}", "table") for action in actions for key in TABLES
            )
            if not needed:
                yield from (as_role(role, "s3:PutObject", f"{store}/{key}", "data") for key in (*DATA, *METADATA))
            bucket = store.partition("/")[0]
            for prefix in ("quick/tables/0/0/",) if needed else ("", "quick/", "quick/data/", "tables/"):
                yield as_role(role, "s3:ListBucket", bucket, "listing", s3__prefix=prefix)
        if not needed:
            yield from (table_request(role, action, table_of(stacks), "repositories") for action in (*READS, *WRITES))


def _foreign_secrets(stacks: Stacks) -> Iterator[Request]:
    """Of other connections, and what somebody else keeps, for each flow that calls an API."""
    for _, _, properties in stacks.each("AWS::StepFunctions::StateMachine"):
        text = str(definition(properties))
        if "http:invoke" not in text:
            continue
        (connection,) = {part.split("'")[0] for part in text.split(":connection/")[1:]}
        name = connection.split("/")[0]
        of_others = (f"{name}-2/id", f"x{name}/id", "other/id", f"other/{name}/id")
        for secret in (*(f"events!connection/{other}-AbCdEf" for other in of_others), "graveler-AbCdEf"):
            for action in ("GetSecretValue", "DescribeSecret"):
                arn = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{secret}"
                yield as_role(properties["RoleArn"], f"secretsmanager:{action}", arn, "another's secret")


def flows(stacks: Stacks) -> list[str]:
    """The roles of flows that call an API."""
    return [
        properties["RoleArn"]
        for _, _, properties in stacks.each("AWS::StepFunctions::StateMachine")
        if "http:invoke" in str(definition(properties))
    ]
