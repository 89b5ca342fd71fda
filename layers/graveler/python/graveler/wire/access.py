"""Documents about users, keys and AWS principals."""

from typing import Annotated

from msgspec import Meta, Struct, field

from graveler.access.authentication import COOKIE
from graveler.access.permissions import Role
from graveler.wire.documents import Pagination


class LoginInformation(Struct, frozen=True):
    """An access key and its secret."""

    access_key_id: str
    secret_access_key: str


class AuthenticationToken(Struct, frozen=True):
    """A bearer token; ``token_expiration`` in Unix seconds."""

    token: str
    token_expiration: int


class AuthCapabilities(Struct, frozen=True):
    """What a login page may offer."""

    invite_user: bool = False
    forgot_password: bool = False


class User(Struct, frozen=True):
    """A holder of access keys. ``creation_date``: of the first key, in Unix seconds."""

    id: str
    creation_date: int
    friendly_name: str


class CurrentUser(Struct, frozen=True):
    """Who asks."""

    user: User


class UserList(Struct, frozen=True):
    """A page of users."""

    pagination: Pagination
    results: list[User]


class UserCreation(Struct, frozen=True):
    """A user to be."""

    id: Annotated[str, Meta(min_length=1)]


class Credentials(Struct, frozen=True):
    """An access key. ``creation_date`` in Unix seconds."""

    access_key_id: str
    creation_date: int


class CredentialsWithSecret(Struct, frozen=True):
    """An access key just made; its secret cannot be had again. ``creation_date`` in Unix seconds."""

    access_key_id: str
    secret_access_key: str
    creation_date: int


class CredentialsList(Struct, frozen=True):
    """A page of access keys."""

    pagination: Pagination
    results: list[Credentials]


class AccessKeyDocument(Struct, frozen=True):
    """An access key. ``name`` is its holder's, who commits; ``repositories`` and ``branches`` are patterns, none for all;
    ``created`` in Unix seconds. The secret of one for ``s3`` is kept, sealed, to verify what it signs."""

    access_key_id: str
    name: str
    role: Role
    repositories: list[str]
    branches: list[str]
    created: int
    s3: bool


class AccessKeyWithSecret(AccessKeyDocument, frozen=True, kw_only=True):
    """An access key just made; its secret cannot be had again."""

    secret_access_key: str


class AccessKeyCreation(Struct, frozen=True):
    """A key to be. Without patterns it is for all repositories and branches."""

    name: str
    role: Role = Role.WRITER
    repositories: list[str] = []
    branches: list[str] = []
    s3: bool = False


class AccessKeyList(Struct, frozen=True):
    """A page of keys, by ID."""

    pagination: Pagination
    results: list[AccessKeyDocument]


class IdentityRequest(Struct, frozen=True):
    """A presigned ``GetCallerIdentity``: its parts, as JSON in base64."""

    identity_token: str


class ExternalLoginInformation(Struct, frozen=True):
    """Who wants to log in, and for how many seconds: one hour unless said, twelve at most."""

    identity_request: IdentityRequest = field(name="identityRequest")
    token_expiration_duration: int | None = None


class PrincipalRuleDocument(Struct, frozen=True):
    """Which AWS principals log in, a pattern of ARNs, and what for; ``name`` is who commits, in which ``{principal}`` and
    ``{session}`` stand for names of the role or user, and of the role's session. ``repositories`` and ``branches`` are patterns,
    none for all; ``created`` in Unix seconds."""

    id: str
    principal: str
    name: str
    role: Role
    repositories: list[str]
    branches: list[str]
    created: int


class PrincipalRuleCreation(Struct, frozen=True):
    """A rule to be. Without patterns it is for all repositories and branches."""

    principal: str
    name: str
    role: Role = Role.WRITER
    repositories: list[str] = []
    branches: list[str] = []


class PrincipalRuleList(Struct, frozen=True):
    """A page of rules, by ID."""

    pagination: Pagination
    results: list[PrincipalRuleDocument]


class ExternalPrincipalCreation(Struct, frozen=True):
    """Nothing that counts: AWS principals have no settings."""

    settings: list[dict[str, str]] = []


class ExternalPrincipal(Struct, frozen=True):
    """AWS principals who log in as a user."""

    id: str
    user_id: str


class ExternalPrincipalList(Struct, frozen=True):
    """A page of them."""

    pagination: Pagination
    results: list[ExternalPrincipal]


class LoginConfig(Struct, frozen=True):
    """How people log in: with access keys, nothing else."""

    rbac: str = field(default="none", name="RBAC")
    login_url: str = ""
    login_failed_message: str = "error authenticating request"
    login_cookie_names: list[str] = field(default_factory=lambda: [COOKIE])
    logout_url: str = ""


class SetupState(Struct, frozen=True):
    """Whether the lake has had an access key: ``initialized`` or ``not_initialized``."""

    state: str
    comm_prefs_missing: bool = False
    login_config: LoginConfig = LoginConfig()


class KeyChoice(Struct, frozen=True):
    """An access key of one's own choice."""

    access_key_id: str
    secret_access_key: str


class Setup(Struct, frozen=True):
    """The first user. Other fields that clients send are ignored."""

    username: str
    key: KeyChoice | None = None
