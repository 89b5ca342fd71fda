"""The location of the lake and the identity of the user, found in options, the environment and the working folder.

Interfaces that run in a user's own process use it; a server does not. Options and arguments come first; a profile that one of
them names (``--profile``) counts as an option. Then come the variables of the environment, then the profile that GRAVELER_PROFILE
names or the one called ``default`` (:mod:`graveler.location.configuration`), then lakectl's file (for keys only), then the
working folder.
"""

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, NoReturn
from urllib.parse import urlsplit

from graveler.errors import ForbiddenError, InvalidError, NotFoundError, UnavailableError
from graveler.lake.opening.closed_folders import closed_to_user
from graveler.lake.opening.location import AwsLake, FolderLake, LakeLocation
from graveler.lake.refs.run_destination import protect_destination
from graveler.location.configuration import PROFILE as PROFILE
from graveler.location.configuration import Profile, find_lake_default, find_profile, find_user
from graveler.system.extras import not_installed
from graveler.values.addresses import without_scheme

LAKE: Final = "GRAVELER_LAKE"
"""The lake: a folder; or a table as for TABLES, or a server as for ENDPOINT."""

TABLES: Final = "GRAVELER_TABLES"
"""The table of a lake on AWS, ``dynamodb://table``."""

ENDPOINT: Final = "GRAVELER_ENDPOINT"
"""The URL of the server that serves the lake, ``https://host``."""

KEY_ID: Final = "GRAVELER_ACCESS_KEY_ID"
SECRET: Final = "GRAVELER_SECRET_ACCESS_KEY"
"""The access key for a server."""

TOKEN: Final = "GRAVELER_SESSION_TOKEN"
"""Instead of a key: the token of a login, valid until the login ends."""

LOGIN: Final = "GRAVELER_LOGIN"
"""Instead of a key: ``aws``, to log in with AWS's credentials."""

SERVER_NAME: Final = "GRAVELER_SERVER_NAME"
"""The server name that such a login signs, if it is not the server's host name."""

HOST: Final = "GRAVELER_ENDPOINT_HOST"
"""The host name to send to that server, if it is not the URL's own."""

OBJECTS: Final = "GRAVELER_OBJECTS"
"""The location of a lake's repositories on AWS, ``s3://bucket/prefix``."""

SEALING_KEY_FILE: Final = "GRAVELER_SEALING_KEY_FILE"
"""The file with the key that seals the secrets in the table of a lake on AWS."""

KMS_KEY: Final = "GRAVELER_KMS_KEY"
"""Instead of that file: the ARN of the KMS key that has wrapped the sealing key."""

TABLE_ROLE: Final = "GRAVELER_TABLE_ROLE"
"""The ARN of a role of AWS: its sessions are the credentials that a server gives to clients of Iceberg tables."""

REPO: Final = "GRAVELER_REPO"
"""The default repository of commands, and perhaps its branch: ``sales`` or ``sales/main``."""

RUN: Final = "GRAVELER_RUN"
"""In a program of ``graveler run``: the destination of that run, which the program may not change itself."""

USER: Final = "GRAVELER_USER"
"""The name of the committer."""

BY_USE: Final = "`graveler use` in this lake"
"""The source of the default repository of a lake that no profile names."""

HIDDEN: Final = ".graveler"
"""The folder that `graveler init` creates in a working folder."""

_CERTIFICATES: Final = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
_MARKER: Final = "graveler.json"
_LAKECTL: Final = "~/.lakectl.yaml"
_TABLE: Final = "dynamodb://"


@dataclass(frozen=True, kw_only=True)
class Network:
    """The network settings for reaching servers. ``proxies`` are URLs by the scheme of the request, except for the hosts that
    ``no_proxy`` lists, in curl's format (``*``, or names and their suffixes); requests to this machine never use a proxy.
    ``certificates`` is a file with the trusted certificate authorities; without one, the system's are trusted."""

    proxies: Mapping[str, str] = field(default_factory=dict)
    no_proxy: str = ""
    certificates: str = ""


@dataclass(frozen=True, kw_only=True)
class ServedLake:
    """A lake behind the HTTP API of a server, and the access key for it; or, instead of a key, the ``token`` of a login,
    or a login with AWS's credentials (``by_aws``). ``host`` is the host name to send, if it is not the URL's own, and
    ``name`` the one that is signed for AWS, if it is neither. ``profile`` is the name of the profile that named the server, or
    had the key for it; None if neither."""

    url: str
    key_id: str = ""
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    by_aws: bool = False
    host: str | None = None
    name: str | None = None
    network: Network = Network()
    profile: str | None = None

    @property
    def is_on_this_machine(self) -> bool:
        """True if the server has an address of this machine, and so the same files."""
        return urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")

    @property
    def signed_name(self) -> str:
        """The name of the server in a login with AWS."""
        return self.name or self.host or urlsplit(self.url).hostname or ""

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, kw_only=True)
class Named:
    """The location of the lake according to options or arguments; None: not given. ``lake`` is a folder,
    ``dynamodb://table`` or a server's URL, ``tables`` and ``endpoint`` only the latter two; the others are for a lake on AWS.
    AWS's own configuration provides a missing ``region`` or endpoint URL. ``key`` is the access key for a server, its ID and its
    secret; ``login`` may be ``aws`` instead. Without both, the environment decides. ``profile`` is a profile of the configuration
    file, for what the other fields leave open."""

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
    profile: str | None = None
    by_options: bool = field(default=False, compare=False)

    def spelled(self, name: str) -> str:
        """Return the name of a field as its user wrote it: a parameter, or an option of the command line (``by_options``)."""
        return f"--{name.replace('_', '-')}" if self.by_options else name

    @property
    def on_aws(self) -> str:
        """The options that a lake on AWS needs, for messages."""
        if self.by_options:
            return f"--tables {_TABLE}TABLE and --objects s3://BUCKET/PREFIX (or {TABLES} and {OBJECTS})"
        return f"tables='{_TABLE}TABLE' and objects='s3://BUCKET/PREFIX' (or {TABLES} and {OBJECTS})"


class _Choice(NamedTuple):
    """The name of a lake, and the source of that name; and the profile, if it is one."""

    by: str
    value: str
    profile: Profile | None = None

    @property
    def shown(self) -> str:
        """The value in quotes, as errors show it: without a password."""
        from graveler.text.readable import without_password  # only for errors

        return repr(without_password(self.value))


class DefaultPlace(NamedTuple):
    """The default repository of commands and its branch, "" if not set; and the source of the choice."""

    repository: str
    branch: str
    by: str


def find_default(named: Named | None = None) -> DefaultPlace | None:
    """Find the default repository: of the profile in ``named``, else GRAVELER_REPO, else that of the profile in use, else the one
    that was chosen for this lake. None without one.

    A repository is one of a lake. A profile's is in the lake that the profile names: for another lake it does not count. If the
    profile names no lake, its repository counts only if ``named`` names the profile (:func:`unbound_default`). The names are not
    checked. Errors as those of :func:`lake_address` and :func:`graveler.location.configuration.find_lake_default`.
    """
    named = named or Named()
    if named.profile is None and (text := os.environ.get(REPO)):
        repository, _, branch = without_scheme(text).partition("/")
        return DefaultPlace(repository, branch.removesuffix("/"), REPO)
    profile = find_profile(named.profile)
    if profile is not None and profile.repository and _applies(profile, named):
        repository = without_scheme(profile.repository).removesuffix("/")
        return DefaultPlace(repository, profile.branch, f"profile {profile.name!r}")
    default = find_lake_default(lake_address(named))
    return None if default is None else DefaultPlace(default.repository, default.branch, BY_USE)


def _applies(profile: Profile, named: Named) -> bool:
    return named.profile is not None if profile.location is None else is_lake_of(profile, named)


def unbound_default(named: Named | None = None) -> DefaultPlace | None:
    """Return the repository of the profile in use if that names no lake, so that nobody knows which lake's it is: versions in
    which the choice did not belong to a lake wrote it. None if ``named`` names that profile. Errors as of
    :func:`graveler.location.configuration.find_profile`."""
    profile = find_profile() if named is None or named.profile is None else None
    if profile is None or not profile.repository or profile.location is not None:
        return None
    return DefaultPlace(profile.repository, profile.branch, f"profile {profile.name!r}")


def is_lake_of(profile: Profile, named: Named | None = None) -> bool:
    """Return whether the lake that :func:`find_lake` finds is the one that this profile names. Errors as of
    :func:`lake_address`."""
    if profile.location is None:
        return False
    choice = _named(named or Named())
    if choice is not None and choice.profile == profile:
        return True
    key, value = profile.location
    if key == "endpoint":
        return lake_address(named) == lake_address(Named(endpoint=value))
    objects = profile.objects or None if value.startswith(_TABLE) else None
    return lake_address(named) == lake_address(Named(lake=str(Path(value).expanduser()), objects=objects))


def lake_address(named: Named | None = None) -> str:
    """Return the address of the lake that :func:`find_lake` finds, equal for all ways to name it: the real path of a folder, the
    URL of a server, or a table and what is stored with it. No key is needed. Other errors as of :func:`find_lake`."""
    named = named or Named()
    choice = _named(named)
    if choice is not None and _is_served(choice, named):
        parts = urlsplit(choice.value)
        return f"{parts.scheme}://{parts.hostname or ''}{'' if parts.port is None else f':{parts.port}'}"
    location = _own(named, choice)
    if isinstance(location, FolderLake):
        return os.path.realpath(location.folder)
    return f"{location.tables.rstrip('/')} {location.objects.rstrip('/')}"


def find_lake(named: Named | None = None) -> LakeLocation | ServedLake:
    """Find the lake: from ``named``, else from the environment, else from the profile in use, else in the nearest folder upward
    from the working folder.

    A folder is a lake if it holds ``graveler.json``, or ``.graveler`` that does; a folder that is named need not be one yet.
    :class:`NotFoundError`, with what to do; :class:`InvalidError` if two locations are named, or half of one;
    :class:`ForbiddenError` for a server without an access key, :class:`UnavailableError` for a folder that this user may not look
    into. Also the errors of :func:`graveler.location.configuration.find_profile`.
    """
    named = named or Named()
    choice = _named(named)
    if choice is not None and _is_served(choice, named):
        _refuse_for_aws(named, choice)
        return _served(choice, named)
    if named.login is not None:
        raise InvalidError(
            f"login {named.login!r} is only for a lake behind a server; name one with {named.spelled('endpoint')}, or leave the "
            "login out"
        )
    return _own(named, choice)


def find_location(named: Named | None = None) -> LakeLocation:
    """Find the lake like :func:`find_lake`, for work that needs the lake itself: :class:`InvalidError` if a server is named."""
    named = named or Named()
    choice = _named(named)
    if choice is not None and _is_served(choice, named):
        remedy = "in its folder" if choice.profile is None else f"with {named.spelled('lake')} and its folder"
        raise InvalidError(
            f"this works only on the lake itself, but {choice.by} {choice.shown} names a server; run it "
            f"where the lake is: {remedy}, or with {named.on_aws}"
        )
    return _own(named, choice)


def _named(named: Named) -> _Choice | None:
    """Return the chosen location and its source. Options take precedence, all of them."""
    if run := os.environ.get(RUN):
        protect_destination(run)
    candidates = ((named.spelled(name), getattr(named, name)) for name in ("lake", "tables", "endpoint"))
    if choice := _single(*candidates):
        return choice
    chosen = find_profile(named.profile) if named.profile is not None else None
    if chosen is not None and chosen.location is not None:
        return _by_profile(chosen)
    if choice := _single(*((name, os.environ.get(name) or None) for name in (LAKE, TABLES, ENDPOINT))):
        return choice
    used = find_profile() if named.profile is None else None
    return None if used is None else _by_profile(used)


def _by_profile(profile: Profile) -> _Choice | None:
    if profile.location is None:
        return None
    key, value = profile.location
    return _Choice(f"{key!r} of profile {profile.name!r}", value, profile)


def _own(named: Named, choice: _Choice | None) -> LakeLocation:
    if choice is not None and (choice.by in (named.spelled("tables"), TABLES) or choice.value.startswith(_TABLE)):
        return _aws(choice, named)
    if choice is None and named.objects is not None:
        objects, tables = named.spelled("objects"), named.spelled("tables")
        raise InvalidError(f"{objects} needs {tables}: a lake on AWS needs {named.on_aws}")
    _refuse_for_aws(named, choice)
    return FolderLake(_nearest(named) if choice is None else _named_folder(choice))


def _refuse_for_aws(named: Named, choice: _Choice | None) -> None:
    """Raise :class:`InvalidError` if an option is given that only makes sense for a lake on AWS."""
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
            hint = f"; {choice.by} {choice.shown} names another lake; name only one" if choice else ""
            raise InvalidError(f"{named.spelled(name)} is only for a lake on AWS, which needs {named.on_aws}{hint}")


def _is_served(choice: _Choice, named: Named) -> bool:
    return choice.by in (named.spelled("endpoint"), ENDPOINT) or choice.value.startswith(("http://", "https://"))


def _served(choice: _Choice, named: Named) -> ServedLake:
    environ = os.environ
    lake = ServedLake(
        url=choice.value,
        host=environ.get(HOST) or None,
        name=environ.get(SERVER_NAME) or None,
        network=_network(),
        profile=None if choice.profile is None else choice.profile.name,
    )
    if named.login is not None:
        return _logged_in(lake, named.login)
    if named.key is not None and all(named.key):
        return replace(lake, key_id=named.key[0], secret=named.key[1])
    chosen = find_profile(named.profile) if named.profile is not None else None
    return (
        _with_credentials_of(lake, chosen)
        or _with_variables(lake)
        or (_with_credentials_of(lake, choice.profile or find_profile()) if chosen is None else None)
        or _with_lakectls_key(lake)
        or _without_key(choice)
    )


def _logged_in(lake: ServedLake, login: str) -> ServedLake:
    if login != "aws":
        raise InvalidError(f"cannot log in with {login!r}; use aws, with AWS credentials")
    return replace(lake, by_aws=True)


def _with_credentials_of(lake: ServedLake, profile: Profile | None) -> ServedLake | None:
    """Return the lake with the key or login of this profile; None without one. It goes to the profile's own server only."""
    if profile is None or not _same_server(profile.endpoint, lake.url):
        return None
    if profile.login:
        return replace(_logged_in(lake, profile.login), profile=profile.name)
    if profile.key_id and profile.secret_key:
        return replace(lake, key_id=profile.key_id, secret=profile.secret_key, profile=profile.name)
    return None


def _with_variables(lake: ServedLake) -> ServedLake | None:
    """Return the lake with what the environment has for it: a login, a token, or a key; lakectl's only for its own server."""
    environ = os.environ
    if login := environ.get(LOGIN):
        return _logged_in(lake, login)
    if token := environ.get(TOKEN):
        return replace(lake, token=token)
    if (key_id := environ.get(KEY_ID)) and (secret := environ.get(SECRET)):
        return replace(lake, key_id=key_id, secret=secret)
    if _same_server(environ.get("LAKECTL_SERVER_ENDPOINT_URL", ""), lake.url):
        key_id, secret = (environ.get(f"LAKECTL_CREDENTIALS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"))
        if key_id and secret:
            return replace(lake, key_id=key_id, secret=secret)
    return None


def _with_lakectls_key(lake: ServedLake) -> ServedLake | None:
    """Return the lake with the key in lakectl's file, if it is for this server and no other."""
    configured = _lakectl_settings()
    if _same_server(configured.get("server.endpoint_url", ""), lake.url):
        key_id, secret = (configured.get(f"credentials.{name}") for name in ("access_key_id", "secret_access_key"))
        if key_id and secret:
            return replace(lake, key_id=key_id, secret=secret)
    return None


def _without_key(choice: _Choice) -> NoReturn:
    raise ForbiddenError(
        f"{choice.by} {choice.shown} names a server, but there is no access key for it; set {KEY_ID} "
        f"and {SECRET}, or {LOGIN}=aws to log in with AWS credentials, or keep a key with `graveler login`, or "
        f"configure this server in {_LAKECTL}"
    )


def _network() -> Network:
    """Return the network settings: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in either case, as other tools read them."""
    from urllib.request import getproxies_environment  # 20 ms: not for a local lake

    environment = getproxies_environment()
    fallback = environment.get("all")
    proxies = {scheme: url for scheme in ("http", "https") if (url := environment.get(scheme) or fallback)}
    certificates = next(filter(None, map(os.environ.get, _CERTIFICATES)), "")
    return Network(proxies=proxies, no_proxy=environment.get("no", ""), certificates=certificates)


def _same_server(url: str, other_url: str) -> bool:
    parts, other_parts = urlsplit(url), urlsplit(other_url)
    return bool(parts.hostname) and parts[:2] == other_parts[:2]


def _lakectl_settings() -> dict[str, str]:
    """Return the settings in lakectl's file, by names with a dot. :class:`InvalidError` for a file that is not YAML."""
    try:
        text = Path(_LAKECTL).expanduser().read_text(encoding="utf-8")
    except (OSError, RuntimeError, UnicodeDecodeError):  # no file, no home folder, or not lakectl's file
        return {}
    try:
        import yaml  # 10 ms, only for users who have such a file
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"{not_installed(f'reading {_LAKECTL}', error.name, 'remote')}, or set {KEY_ID} and {SECRET}"
        ) from None
    try:
        document = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - makes texts, lists and mappings, and no other objects
    except yaml.YAMLError as error:
        line = f", line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) else ""
        # The message omits YAML's own one: it may quote a secret.
        raise InvalidError(f"{_LAKECTL}{line} is not valid YAML; fix the file, or set {KEY_ID} and {SECRET}") from None
    sections = document.items() if isinstance(document, dict) else ()
    return {
        f"{section}.{name}": value
        for section, values in sections
        if isinstance(values, dict)
        for name, value in values.items()
        if isinstance(value, str)
    }


def _single(*candidates: tuple[str, str | None]) -> _Choice | None:
    """Return the only location among the candidates, with its source. :class:`InvalidError` for two."""
    choices = [_Choice(by, value) for by, value in candidates if value is not None]
    if len(choices) > 1:
        raise InvalidError(
            f"{' and '.join(f'{choice.by} {choice.shown}' for choice in choices)} name two lakes; name only one"
        )
    return choices[0] if choices else None


def _aws(choice: _Choice, named: Named) -> AwsLake:
    tables = choice.value
    objects = (
        named.objects
        or (choice.profile.objects if choice.profile is not None and named.profile is not None else "")
        or os.environ.get(OBJECTS)
        or (choice.profile.objects if choice.profile is not None else "")
    )
    if not objects:
        if choice.profile is not None:
            raise InvalidError(
                f"{choice.by} needs 'objects': add objects = \"s3://BUCKET/PREFIX\" to the profile, or give "
                f"{named.spelled('objects')}"
            )
        raise InvalidError(f"{choice.by} needs {named.spelled('objects')}: a lake on AWS needs {named.on_aws}")
    s3 = named.s3_endpoint_url or _endpoint("S3")
    dynamodb = named.dynamodb_endpoint_url or _endpoint("DYNAMODB")
    by_option = named.sealing_key_file or named.kms_key
    key_file = named.sealing_key_file if by_option else os.environ.get(SEALING_KEY_FILE) or None
    kms_key = named.kms_key if by_option else os.environ.get(KMS_KEY) or None
    if key_file and kms_key:
        raise InvalidError(
            f"both a file and a KMS key are given as the lake's sealing key: {str(key_file)!r}, {kms_key!r}; give only one"
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
    """Return a service's URL as AWS's own tools find it. Read here, since it also decides how buckets are named in URLs."""
    return os.environ.get(f"AWS_ENDPOINT_URL_{service}") or os.environ.get("AWS_ENDPOINT_URL") or None


def _cache_of(objects: str, tables: str, *endpoints: str | None) -> Path:
    """Return the cache folder of a lake. Each lake has its own: the cache trusts its copies to be files of the lake's own
    store."""
    lake = sha256("\n".join([objects.rstrip("/"), tables.rstrip("/"), *(url or "" for url in endpoints)]).encode())
    return cache_folder() / f"lake-{lake.hexdigest()[:16]}"


def _named_folder(choice: _Choice) -> Path:
    if "://" in choice.value:
        raise InvalidError(
            f"{choice.by} {choice.shown} does not name a lake; name a folder, {_TABLE}TABLE "
            "for one on AWS, or a server's URL"
        )
    folder = Path(choice.value)
    if choice.profile is not None:
        try:
            folder = folder.expanduser()
        except RuntimeError:
            raise InvalidError(
                f"{choice.by} {choice.shown} names a user without a home folder; write the whole path"
            ) from None
    return lake_in(folder) or folder


def _nearest(named: Named) -> Path:
    start = working_folder()
    for folder in (start, *start.parents):
        lake = lake_in(folder)
        if lake is not None:
            return lake
    raise NotFoundError(
        f"there is no lake in {str(start)!r} or above it; create one with `graveler init`, "
        f"or name one with {named.spelled('lake')} or {LAKE}"
    )


def lake_in(folder: Path) -> Path | None:
    """Return the lake that ``folder`` is, or holds as ``.graveler``. :class:`UnavailableError` if this user may not look: a lake
    that they may not open is not passed over for one further up."""
    for candidate in (folder, folder / HIDDEN):
        try:
            if (candidate / _MARKER).is_file():
                return candidate
        except PermissionError:
            raise closed_to_user(candidate, is_lake=candidate.name == HIDDEN) from None
        except OSError as error:
            raise UnavailableError(f"cannot look for a lake in {str(candidate)!r}: {error.strerror}") from None
    return None


def working_folder() -> Path:
    """Return the working folder as an absolute path."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UnavailableError(f"cannot read the working folder: {error.strerror}; change to another one") from None


def cache_folder() -> Path:
    """Return the folder for this user's caches: ``graveler`` in XDG_CACHE_HOME, else in ``~/.cache``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # XDG ignores a path that is not absolute.
        home = Path(named) if named.startswith("/") else Path.home() / ".cache"
    except RuntimeError:  # a user without an entry, as in containers
        raise UnavailableError("this user has no home folder for a cache; set XDG_CACHE_HOME") from None
    return home / "graveler"


def set_variables(*names: str) -> list[str]:
    """Return those of these variables that are set."""
    return [name for name in names if os.environ.get(name)]


def user_name(profile: str | None = None) -> str:
    """Return the committer's name: GRAVELER_USER, else the one in the configuration file, of this profile or the one in use, else
    the login name, else "". Errors as :func:`graveler.location.configuration.find_user`."""
    user = os.environ.get(USER) or find_user(profile)
    return user or login_name()


def login_name() -> str:
    """Return the name with which the user is logged in to this machine; "" without one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as in containers
        return ""
