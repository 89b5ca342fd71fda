"""Errors of refusals, with their reasons. HTTP status 401 for the first three, as in lakeFS, and 429 for the next."""

from graveler.errors import BusyError, ForbiddenError, NotFoundError, sentence


class AuthenticationError(ForbiddenError):
    """The caller cannot be authenticated. A wrong secret, an unknown key, a revoked key and an expired token look the same to the
    caller."""

    code = "authentication_failed"

    def __init__(self) -> None:
        super().__init__("error authenticating request")  # clients compare this text


class IdentityRefusedError(ForbiddenError):
    """A login by AWS that cannot be confirmed, or that no rule admits; or one at ``graveler ui`` without the address that it
    shows. ``who`` is the caller's ARN, or otherwise AWS's access key ID; empty if neither is known."""

    code = "identity_refused"
    who: str = ""

    def __init__(self, reason: str, who: str = "") -> None:
        self.who = who
        super().__init__(reason)


class NotPermittedError(ForbiddenError):
    """The caller is authenticated, but not permitted to do this. ``permission`` (``read``, ``check``, ``write`` or ``admin``) is
    what the request needs on ``repository`` and ``branch`` (empty: the whole lake, more than one branch); ``key_id`` and ``role``
    are the caller's. All are empty if a role is not the reason."""

    code = "not_permitted"
    key_id: str
    role: str
    permission: str
    repository: str
    branch: str

    def __init__(
        self,
        reason: str,
        *,
        key_id: str = "",
        role: str = "",
        permission: str = "",
        repository: str = "",
        branch: str = "",
    ) -> None:
        self.key_id, self.role, self.permission = key_id, role, permission
        self.repository, self.branch = repository, branch
        super().__init__(reason)


@sentence("too many failed attempts to authenticate; wait {retry_after} s, then try the right key")
class TooManyFailuresError(BusyError):
    """Too many wrong secrets from one address. ``retry_after`` is in seconds."""

    code = "too_many_failures"
    retry_after: int


class SourceNotAllowedError(ForbiddenError):
    """The address lies outside the allowed sources of imports and links."""

    code = "source_not_allowed"
    address: str

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"address {address[:200]!r} is outside the allowed import sources; the lake's operator configures them with "
            "`graveler serve --import-source`, or as data buckets of a deployment"
        )


class OthersNamespaceError(ForbiddenError):
    """The data at the address belongs, in whole or in part, to a repository that the caller may not access."""

    code = "namespace_of_others"
    address: str

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"address {address[:200]!r} overlaps the storage namespace of a repository that this key may not read; "
            "name another address"
        )


@sentence("rule {rule_id!r} for AWS principals does not exist, or was removed; list the existing ones")
class PrincipalRuleNotFoundError(NotFoundError):
    """No rule about AWS principals has this ID."""

    code = "principal_rule_not_found"
    rule_id: str


@sentence("access key {key_id!r} does not exist, or was revoked; list the existing ones")
class KeyNotFoundError(NotFoundError):
    """No live access key has this ID."""

    code = "access_key_not_found"
    key_id: str
