"""The variables that lead a program's S3 clients to its gateway. ``docs/run.md`` shows them, and who reads which.

``AWS_ENDPOINT_URL`` is not among them: it would send the program's DynamoDB and STS to the gateway, too.
"""

from collections.abc import Mapping, MutableMapping
from typing import Final

from msgspec import Struct

from graveler.gateway.control import REGION, KeyPair, Location
from graveler.lake.opening.location import AwsLake, FolderLake
from graveler.location.environment import ENDPOINT, LAKE, OBJECTS, REPO, RUN, TABLES
from graveler.location.environment import PROFILE as GRAVELER_PROFILE

HOST: Final = "127.0.0.1"
GATEWAY: Final = "GRAVELER_GATEWAY"
"""The variable with the gateway's URL, for programs that configure their client themselves."""

JOIN: Final = "GRAVELER_JOIN_TOKEN"
"""The variable with the invitation of gateways on other hosts; its name is one of a secret."""

_NO_PROXY: Final = ("NO_PROXY", "no_proxy")
_LOCAL: Final = (HOST, "localhost", ".localhost")


class Setting(Struct, frozen=True):
    """A variable with its value, in which ``{url}``, ``{port}``, ``{region}``, ``{key}`` and ``{secret}`` stand for those of the
    gateway. ``clients`` are those that read it. The one of a ``credential`` is left as it is if the program keeps its keys."""

    name: str
    value: str
    clients: str
    credential: bool = False


SETTINGS: Final = (
    Setting("AWS_ACCESS_KEY_ID", "{key}", "every client of S3", credential=True),
    Setting("AWS_SECRET_ACCESS_KEY", "{secret}", "every client of S3", credential=True),
    Setting("AWS_REGION", "{region}", "AWS's SDKs and command line, object_store, DuckDB", credential=True),
    Setting("AWS_DEFAULT_REGION", "{region}", "boto3, s3fs, object_store, DuckDB", credential=True),
    Setting(
        "AWS_ENDPOINT_URL_S3", "{url}", "AWS's SDKs and command line, boto3, s3fs, pyarrow, object_store from 0.13"
    ),
    Setting("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "false", "AWS's SDKs, which would ignore the one above"),
    Setting("AWS_EC2_METADATA_DISABLED", "true", "AWS's SDKs, which else may ask for a role", credential=True),
    Setting("AWS_ENDPOINT", "{url}", "object_store: Polars, delta-rs, Lance, obstore"),
    Setting("AWS_ALLOW_HTTP", "true", "object_store, which refuses http otherwise"),
    Setting("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "false", "object_store"),
    Setting("DUCKDB_S3_ENDPOINT", "localhost:{port}", "DuckDB, which puts the bucket in front of the host"),
    Setting("DUCKDB_S3_USE_SSL", "false", "DuckDB"),
    Setting("S3_ENDPOINT_URL", "{url}", "s5cmd"),
    Setting("RCLONE_CONFIG_GRAVELER_TYPE", "s3", "rclone, as the remote `graveler:`"),
    Setting("RCLONE_CONFIG_GRAVELER_PROVIDER", "Other", "rclone"),
    Setting("RCLONE_CONFIG_GRAVELER_ENV_AUTH", "true", "rclone"),
    Setting("RCLONE_CONFIG_GRAVELER_ENDPOINT", "{url}", "rclone"),
    Setting("RCLONE_CONFIG_GRAVELER_REGION", "{region}", "rclone"),
    Setting(
        "SPARK_SUBMIT_OPTS",
        "-Dspark.hadoop.fs.s3a.endpoint={url} -Dspark.hadoop.fs.s3a.endpoint.region={region} "
        "-Dspark.hadoop.fs.s3a.path.style.access=true -Dspark.hadoop.fs.s3a.connection.ssl.enabled=false",
        "Spark, for `s3a://`; behind the options that are there",
    ),
    Setting(GATEWAY, "{url}", "programs that configure their client themselves"),
)
"""The variables of a program under a gateway, apart from NO_PROXY and the lake's."""


class Removal(Struct, frozen=True):
    """Variables that would lead a client elsewhere, and how. Those of a ``credential`` stay if the program keeps its own keys."""

    names: tuple[str, ...]
    effect: str
    credential: bool = False


REMOVALS: Final = (
    Removal(("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"), "belong to other keys", credential=True),
    Removal(
        ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
        "name other keys, regions and endpoints",
        credential=True,
    ),
    Removal(("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"), "assume a role", credential=True),
    Removal(
        (
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        ),
        "ask the container's host for keys",
        credential=True,
    ),
    Removal(("AWS_USE_DUALSTACK_ENDPOINT", "AWS_USE_FIPS_ENDPOINT"), "SDKs refuse these beside an endpoint"),
    Removal(("AWS_SKIP_SIGNATURE", "AWS_S3_EXPRESS"), "object_store would send no signature, or another one"),
    Removal(
        (
            "AWS_SERVER_SIDE_ENCRYPTION",
            "AWS_SSE_KMS_KEY_ID",
            "AWS_SSE_BUCKET_KEY_ENABLED",
            "AWS_SSE_CUSTOMER_KEY_BASE64",
        ),
        "object_store would ask for an encryption; the lake's bucket has its own",
    ),
    Removal(("AWS_S3_LOCKING_PROVIDER",), "delta-rs would lock in DynamoDB; the gateway writes conditionally"),
    Removal(("DUCKDB_S3_REQUESTER_PAYS", "DUCKDB_S3_KMS_KEY_ID"), "DuckDB would send headers that no lake has"),
)


def url_of(port: int) -> str:
    """Return the URL of the gateway that listens at ``port``."""
    return f"http://{HOST}:{port}"


def program_environment(
    environment: Mapping[str, str],
    port: int,
    keys: KeyPair | None,
    lake: Location,
    place: str,
    *,
    region: str = REGION,
    destination: str = "",
    invitation: str = "",
) -> dict[str, str]:
    """Return the variables of a program whose gateway listens at ``port``, made of those that it would have without one. With
    ``keys`` None the program keeps its own. ``place`` is the repository and ref that the command line takes by default, and
    ``destination`` the text of the branch that it refuses to change (:mod:`graveler.lake.refs.run_destination`), and
    ``invitation`` that of gateways on other hosts."""
    variables = dict(environment)
    for removal in REMOVALS:
        if keys is not None or not removal.credential:
            for name in removal.names:
                variables.pop(name, None)
    variables |= _settings(port, keys, region)
    if inherited := environment.get("SPARK_SUBMIT_OPTS"):
        variables["SPARK_SUBMIT_OPTS"] = f"{inherited} {variables['SPARK_SUBMIT_OPTS']}"
    for name in _NO_PROXY:
        variables[name] = _with_local(environment.get(name, ""))
    for name in (LAKE, TABLES, ENDPOINT, JOIN):
        variables.pop(name, None)
    if invitation:
        variables[JOIN] = invitation
    if destination:
        variables[RUN] = destination
    return {**variables, **_lake_variables(lake), REPO: place}


def _settings(port: int, keys: KeyPair | None, region: str) -> dict[str, str]:
    values = {"url": url_of(port), "port": str(port), "region": region}
    if keys is not None:
        values |= {"key": keys.id, "secret": keys.secret}
    return {
        setting.name: setting.value.format_map(values)
        for setting in SETTINGS
        if keys is not None or not setting.credential
    }


def leave_program(environment: MutableMapping[str, str], port: int, keys: KeyPair | None, region: str) -> None:
    """Remove the variables that lead to a gateway from the environment of its program, for another gateway that was started
    there: it asks S3 itself."""
    for name, value in _settings(port, keys, region).items():
        if environment.get(name) == value:
            del environment[name]


def _with_local(no_proxy: str) -> str:
    """Return a list of hosts that need no proxy, with this machine in it."""
    hosts = [host.strip() for host in no_proxy.split(",") if host.strip()]
    return no_proxy if "*" in hosts else ",".join(dict.fromkeys([*hosts, *_LOCAL]))


def _lake_variables(lake: Location) -> dict[str, str]:
    """Return the variables that name a lake for the command line."""
    match lake:
        case FolderLake():
            return {LAKE: str(lake.folder.absolute())}
        case AwsLake():
            return {LAKE: lake.tables, OBJECTS: lake.objects}
        case _:
            named = {} if lake.profile is None else {GRAVELER_PROFILE: lake.profile}
            return {LAKE: lake.url, **named}
