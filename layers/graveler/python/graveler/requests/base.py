"""The common base of all requests."""

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, ClassVar, Final, Generic, Literal, TypeVar

from msgspec import Struct

from graveler.errors import InvalidError

T_co = TypeVar("T_co", covariant=True)


class Permission(Enum):
    """The permission that a request needs."""

    READ = "read"
    """Read anything, and get presigned URLs to read."""
    CHECK = "check"
    """Post statuses of trees."""
    WRITE = "write"
    """Change objects, branches, tags and commits."""
    ADMIN = "admin"
    """Create, configure and delete repositories; create and revoke keys."""


class Repetition(Enum):
    """The effect of a request that a client without a response sends again under the same idempotency key."""

    HARMLESS = "harmless"
    """It changes nothing more, even without a key."""
    RESULT = "result"
    """The lake finds the first one's result by the request ID."""
    RESPONSE = "response"
    """The API returns the first one's response, which the table holds under the key."""


Function = Literal["read", "write", "commit", "merge", "diff"]
"""A function on Lambda that answers operations of the HTTP API, each with rights of its own."""


class Field(Struct, frozen=True):
    """The words of the interfaces for a field of a request, in its ``Annotated`` type.

    ``help`` is the help of its command-line option; a field without it has no option. ``option`` names the option if that is not
    the field's name with hyphens, ``metavar`` its value, and ``least`` the least number that it takes. ``wire`` is the field's
    name in the HTTP API, if that has another.
    """

    help: str = ""
    wire: str = ""
    option: str = ""
    metavar: str = ""
    least: int | None = None


class Endpoint(Struct, frozen=True):
    """The operation of the HTTP API that runs a request.

    Fields whose wire names stand in ``template`` are parameters of the path; those in ``query``, or all others if there is no
    body, are parameters of the query. The others are the JSON document ``body``, which ``meaning`` describes in the OpenAPI
    document: optional fields may be null or missing, except for those in ``needed``. ``info`` is the shape of a commit's
    information: ``plain`` (message and metadata), ``dated`` (also a date), or ``overrides`` (of another commit's).
    """

    method: str
    template: str
    operation: str
    function: Function = "write"
    body: str = ""
    meaning: str = ""
    query: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    info: Literal["plain", "dated", "overrides"] = "plain"


_MOST_REASON: Final = 1_000
"""Characters of the reason to bypass rules."""


class CommitInfo(Struct, frozen=True, omit_defaults=True):
    """The information in a new commit, including its author. ``created`` (Unix seconds, from 1970 to a day from now) overrides
    the time. A repeated request with the same ``request_id`` returns the commit of the first one (promise C4).
    :class:`InvalidError` for what is no text, which nobody could read again."""

    message: str = ""
    author: str = ""
    metadata: Mapping[str, str] = {}
    created: int | None = None
    request_id: str = ""

    def __post_init__(self) -> None:
        # Type checkers do not see all programs.
        for name, text in (("message", self.message), ("author", self.author)):
            if not isinstance(text, str):
                raise InvalidError(f"the {name} of the commit is {text!r}; it must be a string")
        if not isinstance(self.metadata, Mapping):
            raise InvalidError(f"the metadata of the commit is {self.metadata!r}; it must be a dictionary of strings")
        for text in (*self.metadata, *self.metadata.values()):
            if not isinstance(text, str):
                raise InvalidError(f"the metadata of the commit has {text!r}; keys and values must be strings")


class Request(Struct, Generic[T_co], frozen=True, kw_only=True, omit_defaults=True):
    """A verb of one repository, whose result is ``T_co``. Class variables declare what it needs and changes."""

    permission: ClassVar[Permission]
    """The permission that the caller needs."""
    changes: ClassVar[tuple[str, ...]] = ()
    """Fields that name the branches that the request changes."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Fields that name the paths that the request changes."""
    refs: ClassVar[tuple[str, ...]] = ()
    """Fields that name the refs that the request reads: an operation reads them as they were when it was requested."""
    can_be_long: ClassVar[bool] = False
    """Whether the request may become an operation."""
    repetition: ClassVar[Repetition] = Repetition.HARMLESS
    """What a repeated request does."""
    implementation: ClassVar[str]
    """The function that runs the request, ``module:name`` within :mod:`graveler.lake`. It takes a repository's parts, the
    request and a context. The module is loaded on first use."""
    endpoint: ClassVar[Endpoint | None] = None
    """The operation of the HTTP API that runs the request; None for a request that is several operations, or none."""


class Gated(Request[T_co], frozen=True, kw_only=True):
    """The common base of requests that move, make or remove a branch or a tag, and that its rules may refuse
    (:class:`RuleError`). With ``bypass``, a reason of at most 1,000 characters, the caller passes by the rules that permit this
    to the caller; the reason stands in the reference log."""

    bypass: Annotated[
        str,
        Field("Pass by the rules of the branch or tag, if they permit this to you, for this reason.", metavar="REASON"),
    ] = ""

    def __post_init__(self) -> None:
        if len(self.bypass) > _MOST_REASON:
            raise InvalidError(
                f"the reason to bypass rules has {len(self.bypass):,} characters; it stands in the reference log, so give at "
                f"most {_MOST_REASON:,}"
            )
