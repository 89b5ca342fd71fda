"""Where the lake is, and who is asking: the only code that looks at the environment and the working folder.

Faces that run in a user's own process ask here; a server does not.
"""

import getpass
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from graveler.errors import ForbiddenError, InvalidError, NotFoundError, UnavailableError
from graveler.lake.opening.location import AwsLake, FolderLake, LakeLocation

LAKE: Final = "GRAVELER_LAKE"
"""Names the lake: a folder; or a table as TABLES does, or a server as ENDPOINT does."""

TABLES: Final = "GRAVELER_TABLES"
"""Names the table of a lake on AWS, ``dynamodb://table``."""

ENDPOINT: Final = "GRAVELER_ENDPOINT"
"""Names a lake by the server that it is behind, ``https://host``."""

KEY_ID: Final = "GRAVELER_ACCESS_KEY_ID"
SECRET: Final = "GRAVELER_SECRET_ACCESS_KEY"
"""The access key that a server is asked with."""

TOKEN: Final = "GRAVELER_SESSION_TOKEN"
"""Instead of a key: the token of a login, good until it ends."""

LOGIN: Final = "GRAVELER_LOGIN"
"""Instead of a key: ``aws``, to log in with AWS's credentials."""

SERVER_NAME: Final = "GRAVELER_SERVER_NAME"
"""The name of that server which is signed then, if it is not its host name."""

HOST: Final = "GRAVELER_ENDPOINT_HOST"
"""The host name to send to that server, if it is not the URL's own."""

OBJECTS: Final = "GRAVELER_OBJECTS"
"""Names the place of a lake's repositories on AWS, ``s3://bucket/prefix``."""

SEALING_KEY_FILE: Final = "GRAVELER_SEALING_KEY_FILE"
"""Names the file with the key that seals the secrets in the table of a lake on AWS."""

KMS_KEY: Final = "GRAVELER_KMS_KEY"
"""Names the KMS key instead, by its ARN, that has wrapped it."""

USER: Final = "GRAVELER_USER"
"""Names whoever commits."""

HIDDEN: Final = ".graveler"
"""Folder that `graveler init` makes in a working folder."""

_CERTIFICATES: Final = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
_MARKER: Final = "graveler.json"
_LAKECTL: Final = "~/.lakectl.yaml"
_TABLE: Final = "dynamodb://"
_ON_AWS: Final = f"--tables {_TABLE}TABLE and --objects s3://BUCKET/PREFIX (or {TABLES} and {OBJECTS})"


@dataclass(frozen=True, kw_only=True)
class Network:
    """How servers are reached. ``proxies`` are URLs by the scheme of what is asked for, without those hosts that ``no_proxy``
    lists, as curl has it (``*``, or names and their endings); what is on this machine is always asked straight. ``certificates``
    is a file with those of the authorities that are believed; without one, the system's are."""

    proxies: Mapping[str, str] = field(default_factory=dict)
    no_proxy: str = ""
    certificates: str = ""


@dataclass(frozen=True, kw_only=True)
class ServedLake:
    """A lake behind the HTTP API of a server, and the access key to ask it with; or, instead of a key, the ``token`` of a login,
    or that AWS's credentials are to log in (``by_aws``). ``host`` is the host name that is sent, if it is not the URL's own, and
    ``name`` the one that is signed for AWS, if it is neither."""

    url: str
    key_id: str = ""
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    by_aws: bool = False
    host: str | None = None
    name: str | None = None
    network: Network = Network()

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the server is reached by this machine's own address, so that it has the same files."""
        return urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")

    @property
    def signed_name(self) -> str:
        """What a login by AWS calls the server."""
        return self.name or self.host or urlsplit(self.url).hostname or ""

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, kw_only=True)
class Named:
    """What somebody said about where the lake is, by options or arguments; None: nothing. ``lake`` is a folder,
    ``dynamodb://table`` or a server's URL, ``tables`` and ``endpoint`` only the latter two, and the others are of a lake on AWS.
    Without a ``region`` and endpoint URLs, AWS's own configuration says them. ``key`` is the access key to ask a server with, its
    ID and its secret, or ``login`` says ``aws`` instead; without both the environment says."""

    lake: str | None = None
    tables: str | None = None
    endpoint: str | None = None
    objects: str | None = None
    region: str | None = None
    s3_endpoint_url: str | None = None
    dynamodb_endpoint_url: str | None = None
    cache: Path | None = None
    sealing_key_file: Path | None = None
    kms_key: str | None = None
    key: tuple[str, str] | None = field(default=None, repr=False)
    login: str | None = None


def find_lake(named: Named | None = None) -> LakeLocation | ServedLake:
    """Where the lake is: where ``named`` says, else the environment, else in the nearest folder upward from the working folder.

    A folder is a lake if it holds ``graveler.json``, or ``.graveler`` that does; one that is named need not be one.
    :class:`NotFoundError`, with what to do; :class:`InvalidError` for words that name two places, or half of one;
    :class:`ForbiddenError` for a server without an access key.
    """
    named = named or Named()
    found = _named(named)
    if found is not None and _is_served(*found):
        _refuse_for_aws(named, found)
        return _served(*found, named)
    if named.login is not None:
        raise InvalidError(
            f"login {named.login!r} is for a lake behind a server; name it with --endpoint, or leave the login out"
        )
    return _own(named, found)


def find_location(named: Named | None = None) -> LakeLocation:
    """As :func:`find_lake`, for work that needs the lake itself: :class:`InvalidError` where a server is named."""
    named = named or Named()
    found = _named(named)
    if found is not None and _is_served(*found):
        raise InvalidError(
            f"this needs the lake itself, and {found[0]} {found[1]!r} names a server; do it where the lake is kept: in its "
            f"folder, or with {_ON_AWS}"
        )
    return _own(named, found)


def _named(named: Named) -> tuple[str, str] | None:
    """The place that is named, and by what. Options come first, all of them."""
    return _single(("--lake", named.lake), ("--tables", named.tables), ("--endpoint", named.endpoint)) or _single(
        *((name, os.environ.get(name) or None) for name in (LAKE, TABLES, ENDPOINT))
    )


def _own(named: Named, found: tuple[str, str] | None) -> LakeLocation:
    if found is not None and (found[0] in ("--tables", TABLES) or found[1].startswith(_TABLE)):
        return _aws(*found, named)
    if found is None and named.objects is not None:
        raise InvalidError(f"--objects is given without --tables; a lake on AWS needs {_ON_AWS}")
    _refuse_for_aws(named, found)
    return FolderLake(_nearest() if found is None else _named_folder(*found))


def _refuse_for_aws(named: Named, found: tuple[str, str] | None) -> None:
    """Options that make sense for a lake on AWS only, for one that is not there: :class:`InvalidError`."""
    for name in (
        "objects",
        "region",
        "s3_endpoint_url",
        "dynamodb_endpoint_url",
        "cache",
        "sealing_key_file",
        "kms_key",
    ):
        if getattr(named, name) is not None:
            hint = f"; {found[0]} {found[1]!r} names another lake: name one of them" if found else ""
            raise InvalidError(f"--{name.replace('_', '-')} is of a lake on AWS, which is named with {_ON_AWS}{hint}")


def _is_served(by: str, value: str) -> bool:
    return by in ("--endpoint", ENDPOINT) or value.startswith(("http://", "https://"))


def _served(by: str, url: str, named: Named) -> ServedLake:
    environ = os.environ
    found = ServedLake(
        url=url, host=environ.get(HOST) or None, name=environ.get(SERVER_NAME) or None, network=_network()
    )
    login = named.login or (None if named.key else environ.get(LOGIN))
    if login:
        if login != "aws":
            raise InvalidError(f"login {login!r} is no way to log in; the only one is aws, with AWS's credentials")
        return replace(found, by_aws=True)
    if named.key is None and (token := environ.get(TOKEN)):
        return replace(found, token=token)
    for key_id, secret in [named.key] if named.key else _access_keys(url):
        if key_id and secret:
            return replace(found, key_id=key_id, secret=secret)
    raise ForbiddenError(
        f"{by} {url!r} names a server, and there is no access key for it; set {KEY_ID} and {SECRET}, or {LOGIN}=aws to log in "
        f"with AWS's credentials, or have this server in {_LAKECTL}"
    )


def _network() -> Network:
    """How servers are reached: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in either case, as other tools take them."""
    from urllib.request import getproxies_environment  # 20 ms: not for a lake of one's own

    environment = getproxies_environment()
    fallback = environment.get("all")
    proxies = {scheme: url for scheme in ("http", "https") if (url := environment.get(scheme) or fallback)}
    certificates = next(filter(None, map(os.environ.get, _CERTIFICATES)), "")
    return Network(proxies=proxies, no_proxy=environment.get("no", ""), certificates=certificates)


def _access_keys(url: str) -> Iterator[tuple[str | None, str | None]]:
    """Access keys that there may be for a server: graveler's, or lakectl's if they are for this server and no other."""
    environ = os.environ
    yield environ.get(KEY_ID), environ.get(SECRET)
    if _same_server(environ.get("LAKECTL_SERVER_ENDPOINT_URL", ""), url):
        yield environ.get("LAKECTL_CREDENTIALS_ACCESS_KEY_ID"), environ.get("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY")
    configured = _lakectl_settings()
    if _same_server(configured.get("server.endpoint_url", ""), url):
        yield configured.get("credentials.access_key_id"), configured.get("credentials.secret_access_key")


def _same_server(one: str, other: str) -> bool:
    parts, others = urlsplit(one), urlsplit(other)
    return bool(parts.hostname) and parts[:2] == others[:2]


def _lakectl_settings() -> dict[str, str]:
    """What lakectl's file says, by names with a dot. :class:`InvalidError` for a file that is no YAML."""
    try:
        text = Path(_LAKECTL).expanduser().read_text(encoding="utf-8")
    except (OSError, RuntimeError, UnicodeDecodeError):  # no file, no home folder, or none of lakectl's
        return {}
    try:
        import yaml  # 10 ms, for whoever has such a file
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"reading {_LAKECTL} needs the package {error.name!r}, which is not installed; pip install "
            f"'graveler[remote]', or set {KEY_ID} and {SECRET}"
        ) from None
    try:
        document = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - makes texts, lists and mappings, and no other objects
    except yaml.YAMLError as error:
        line = f", line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) else ""
        # What is wrong is not repeated: it may quote a secret.
        raise InvalidError(f"{_LAKECTL}{line} is not YAML; mend the file, or set {KEY_ID} and {SECRET}") from None
    sections = document.items() if isinstance(document, dict) else ()
    return {
        f"{section}.{name}": value
        for section, values in sections
        if isinstance(values, dict)
        for name, value in values.items()
        if isinstance(value, str)
    }


def _single(*candidates: tuple[str, str | None]) -> tuple[str, str] | None:
    """The one place that is named, and by what. :class:`InvalidError` for two."""
    given = [(by, value) for by, value in candidates if value is not None]
    if len(given) > 1:
        raise InvalidError(f"{' and '.join(f'{by} {value!r}' for by, value in given)} name two lakes; name one of them")
    return given[0] if given else None


def _aws(by: str, tables: str, named: Named) -> AwsLake:
    objects = named.objects or os.environ.get(OBJECTS)
    if not objects:
        raise InvalidError(f"{by} is given without --objects; a lake on AWS needs {_ON_AWS}")
    s3 = named.s3_endpoint_url or _endpoint("S3")
    dynamodb = named.dynamodb_endpoint_url or _endpoint("DYNAMODB")
    by_option = named.sealing_key_file or named.kms_key
    key_file = named.sealing_key_file if by_option else os.environ.get(SEALING_KEY_FILE) or None
    kms_key = named.kms_key if by_option else os.environ.get(KMS_KEY) or None
    if key_file and kms_key:
        raise InvalidError(
            f"a file and a KMS key are named for the lake's sealing key: {str(key_file)!r}, {kms_key!r}; name one"
        )
    return AwsLake(
        objects=objects,
        tables=tables,
        cache=(named.cache or _cache_of(objects, tables, s3, dynamodb)).absolute(),
        region=named.region,
        s3_endpoint_url=s3,
        dynamodb_endpoint_url=dynamodb,
        sealing_key_file=None if key_file is None else Path(key_file).absolute(),
        kms_key=kms_key,
    )


def _endpoint(service: str) -> str | None:
    """What AWS's own tools take for a service's address. Read here, since to us it also says how buckets are named in URLs."""
    return os.environ.get(f"AWS_ENDPOINT_URL_{service}") or os.environ.get("AWS_ENDPOINT_URL") or None


def _cache_of(objects: str, tables: str, *endpoints: str | None) -> Path:
    """A cache folder for each lake: copies are taken for files that its own store has."""
    lake = sha256("\n".join([objects.rstrip("/"), tables.rstrip("/"), *(url or "" for url in endpoints)]).encode())
    return cache_folder() / f"lake-{lake.hexdigest()[:16]}"


def _named_folder(by: str, name: str) -> Path:
    if "://" in name:
        raise InvalidError(
            f"{by} {name!r} names no lake; name a folder, {_TABLE}TABLE for one on AWS, or a server's URL"
        )
    folder = Path(name)
    return lake_in(folder) or folder


def _nearest() -> Path:
    start = working_folder()
    for folder in (start, *start.parents):
        found = lake_in(folder)
        if found is not None:
            return found
    raise NotFoundError(
        f"there is no lake in {str(start)!r} or above it; make one with `graveler init`, "
        f"or name one with --lake FOLDER or {LAKE}"
    )


def lake_in(folder: Path) -> Path | None:
    """The lake that ``folder`` is, or holds as ``.graveler``."""
    for candidate in (folder, folder / HIDDEN):
        try:
            if (candidate / _MARKER).is_file():
                return candidate
        except OSError:  # no permission to look: then it is not ours to find
            continue
    return None


def working_folder() -> Path:
    """The working folder, absolute."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UnavailableError(f"the working folder cannot be read: {error.strerror}; change to another one") from None


def cache_folder() -> Path:
    """Where this user's copies of what lies elsewhere are kept: ``graveler`` in XDG_CACHE_HOME, else in ``~/.cache``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # XDG: a path that is not absolute does not count.
        home = Path(named) if named.startswith("/") else Path.home() / ".cache"
    except RuntimeError:  # a user without an entry, as in containers
        raise UnavailableError("this user has no home folder to keep a cache in; set XDG_CACHE_HOME") from None
    return home / "graveler"


def user_name() -> str:
    """Who commits: GRAVELER_USER, else the login name, else nobody."""
    named = os.environ.get(USER)
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as in containers
        return ""
