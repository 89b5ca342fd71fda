"""Documents about users, keys and AWS principals."""

from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct, field

from graveler.access.authentication import COOKIE
from graveler.access.permissions import Role
from graveler.wire.documents import Pagination


class SessionEnd(Enum):
    """The end of a browser's session: when its window closes, or after twelve hours."""

    WINDOW = "window"
    TWELVE_HOURS = "twelve_hours"


class LoginInformation(Struct, frozen=True):
    """An access key and its secret. ``session`` is when the login's cookie ends: with the browser's ``window`` or after
    ``twelve_hours``. Its token then ends after twelve hours, too. Without ``session``, both last seven days."""

    access_key_id: str
    secret_access_key: str
    session: SessionEnd | None = None


class AuthenticationToken(Struct, frozen=True):
    """A bearer token. ``token_expiration`` is in Unix seconds."""

    token: str
    token_expiration: int


class AuthCapabilities(Struct, frozen=True):
    """The features that a login page may offer. ``access_keys`` is false under ``graveler ui``, where only the address that the
    command shows logs in."""

    invite_user: bool = False
    forgot_password: bool = False
    access_keys: bool = True


class User(Struct, frozen=True):
    """A holder of access keys. ``creation_date`` is that of the first key, in Unix seconds."""

    id: str
    creation_date: int
    friendly_name: str


class CurrentUser(Struct, frozen=True):
    """The user who sent the request, as clients of lakeFS know it."""

    user: User


class CurrentUserRights(CurrentUser, frozen=True, kw_only=True):
    """The user who sent the request, and what the credentials allow. ``repositories`` and ``branches`` are patterns that limit
    them; empty means no limit. ``expires``: when a token ends, in Unix seconds; null for an access key's secret."""

    role: Role
    repositories: list[str]
    branches: list[str]
    expires: int | None


class UserList(Struct, frozen=True):
    """A page of users."""

    pagination: Pagination
    results: list[User]


class UserCreation(Struct, frozen=True):
    """The user to create."""

    id: Annotated[str, Meta(min_length=1)]


class Credentials(Struct, frozen=True):
    """An access key. ``creation_date`` is in Unix seconds."""

    access_key_id: str
    creation_date: int


class CredentialsWithSecret(Struct, frozen=True):
    """A new access key with its secret, which is shown only once. ``creation_date`` is in Unix seconds."""

    access_key_id: str
    secret_access_key: str
    creation_date: int


class CredentialsList(Struct, frozen=True):
    """A page of access keys."""

    pagination: Pagination
    results: list[Credentials]


class AccessKeyDocument(Struct, frozen=True):
    """An access key. ``name`` is the name of its holder, who is the committer of its commits. ``repositories`` and ``branches``
    are patterns that limit the key; empty means no limit. ``statuses`` are patterns of the names of statuses that a key of the
    role checker posts. ``created`` is in Unix seconds. The secret of a key for S3 (``s3``) is stored, sealed, to verify
    signatures."""

    access_key_id: str
    name: str
    role: Role
    repositories: list[str]
    branches: list[str]
    created: int
    s3: bool
    statuses: list[str] = []


class AccessKeyWithSecret(AccessKeyDocument, frozen=True, kw_only=True):
    """A new access key with its secret, which is shown only once."""

    secret_access_key: str


class AccessKeyCreation(Struct, frozen=True):
    """The access key to create. Without patterns it is valid for all repositories and branches. The role checker, and no other,
    needs patterns of the names of the ``statuses`` that it posts."""

    name: str
    role: Role = Role.WRITER
    repositories: list[str] = []
    branches: list[str] = []
    s3: bool = False
    statuses: list[str] = []


class AccessKeyList(Struct, frozen=True):
    """A page of access keys, by ID."""

    pagination: Pagination
    results: list[AccessKeyDocument]


class IdentityRequest(Struct, frozen=True):
    """The parts of a presigned ``GetCallerIdentity`` request, as JSON in base64."""

    identity_token: str


class ExternalLoginInformation(Struct, frozen=True):
    """The login of an AWS principal: its proof of identity, and the lifetime of the token in seconds, 12 hours at most; null
    means one hour."""

    identity_request: IdentityRequest = field(name="identityRequest")
    token_expiration_duration: int | None = None


class PrincipalRuleDocument(Struct, frozen=True):
    """A rule that lets AWS principals log in. ``principal`` is a pattern of their ARNs; they commit under ``name``, in which
    ``{principal}`` and ``{session}`` stand for the name of the role or user, and of the role's session. ``repositories`` and
    ``branches`` are patterns; empty means no limit. ``statuses`` are patterns of the names of statuses that a rule of the role
    checker lets them post. ``created`` is in Unix seconds."""

    id: str
    principal: str
    name: str
    role: Role
    repositories: list[str]
    branches: list[str]
    created: int
    statuses: list[str] = []


class PrincipalRuleCreation(Struct, frozen=True):
    """The rule to create. Without patterns it is valid for all repositories and branches. The role checker, and no other, needs
    patterns of the names of the ``statuses`` that it posts."""

    principal: str
    name: str
    role: Role = Role.WRITER
    repositories: list[str] = []
    branches: list[str] = []
    statuses: list[str] = []


class PrincipalRuleList(Struct, frozen=True):
    """A page of rules, by ID."""

    pagination: Pagination
    results: list[PrincipalRuleDocument]


class ExternalPrincipalCreation(Struct, frozen=True):
    """An ignored body: AWS principals have no settings."""

    settings: list[dict[str, str]] = []


class ExternalPrincipal(Struct, frozen=True):
    """The AWS principals that log in as a user: an ARN or a pattern of ARNs (``id``), and the user."""

    id: str
    user_id: str


class ExternalPrincipalList(Struct, frozen=True):
    """A page of AWS principals."""

    pagination: Pagination
    results: list[ExternalPrincipal]


class LoginConfig(Struct, frozen=True):
    """The ways to log in: access keys only."""

    rbac: str = field(default="none", name="RBAC")
    login_url: str = ""
    login_failed_message: str = "error authenticating request"
    login_cookie_names: list[str] = field(default_factory=lambda: [COOKIE])
    logout_url: str = ""


class SetupState(Struct, frozen=True):
    """The state of the lake: ``initialized`` if it ever had an access key, else ``not_initialized``."""

    state: str
    comm_prefs_missing: bool = False
    login_config: LoginConfig = LoginConfig()


class KeyChoice(Struct, frozen=True):
    """An access key and secret chosen by the caller."""

    access_key_id: str
    secret_access_key: str


class Setup(Struct, frozen=True):
    """The first user, and optionally the first access key. Other fields that clients send are ignored."""

    username: str
    key: KeyChoice | None = None
