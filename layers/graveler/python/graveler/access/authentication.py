"""From a request's credentials to its identity: an access key with its secret (Basic), or a token of a login (Bearer, or a
cookie). A login takes a key and its secret, or an AWS principal that a rule admits.

A credential that was good within the last seconds costs no request (:mod:`graveler.access.verified`). Any other costs one read of
the table, whether its key exists or not, and all failures look the same.
"""

import binascii
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from graveler.access.aws_principals import AwsPrincipal
from graveler.access.failure_limits import Failures
from graveler.access.keys import AccessKey, Keys, KeyWithSecret
from graveler.access.permissions import Identity, Role
from graveler.access.principal_rules import PrincipalRule, PrincipalRules, is_rule, rule_for
from graveler.access.refusals import AuthenticationError, IdentityRefusedError
from graveler.access.tokens import LIFETIME, Claims, LoginToken, Tokens
from graveler.access.verified import Verified
from graveler.errors import InvalidError, NotFoundError
from graveler.storage.secrets.keyring import TOKEN_SECRET, Keyring, Rotation, SharedSecret
from graveler.storage.tables.port import Item, Key, Tables

if TYPE_CHECKING:
    from graveler.access.aws_login import AwsLogin

COOKIE: Final = "internal_auth_session"
"""Name of the cookie that holds a token."""

AWS_SECONDS: Final = 3600
"""Seconds for which the token of a login by AWS is valid by default, as other implementations have it."""
MAX_AWS_SECONDS: Final = 12 * 3600
"""Maximum of these seconds: as long as the longest session of a role, whose end AWS does not tell."""

_MAX_CREDENTIAL: Final = 4096
_NO_KEY: Final = ""
"""Stands for the key of foreign tokens, where failures are counted."""


class AwsLoginToken(Struct, frozen=True):
    """The token of an AWS ``principal``, which ``rule`` admits under ``name``."""

    token: LoginToken
    principal: AwsPrincipal
    rule: PrincipalRule
    name: str


class Access:
    """The access keys of one lake, whose ``keyring`` seals the secrets for checking signatures: without one logins are
    impossible; and its rules about AWS principals, which log in if ``aws`` identifies them. Safe to share between threads;
    ``clock`` returns Unix seconds."""

    takes_keys = True
    """Whether an access key and its secret log in."""
    cookie = COOKIE
    """The name of the cookie that holds a token."""

    def __init__(
        self,
        tables: Tables,
        keyring: Keyring | None = None,
        clock: Callable[[], float] = time.time,
        aws: "AwsLogin | None" = None,
    ) -> None:
        keyring = keyring or Keyring(tables)
        self._clock = clock
        self._keyring = keyring
        self._keys = Keys(tables, keyring)
        self._rules = PrincipalRules(tables)
        self._aws = aws
        self._tokens = Tokens(tables, SharedSecret(keyring, TOKEN_SECRET, clock))
        self._verified = Verified(clock)
        self._failures = Failures(clock)

    def authenticate(self, authorization: str | None, cookie: str | None, source: str) -> Identity:
        """Return the caller's identity. ``authorization`` and ``cookie`` are the headers of these names, ``source`` is the
        network address.

        With an Authorization header the cookie is ignored. No request if the credential was verified within
        :data:`graveler.access.verified.KEEP` seconds, otherwise one table read. :class:`AuthenticationError`;
        :class:`TooManyFailuresError` after too many of them.
        """
        if authorization:
            identity = self._verified.find(authorization)
            return identity if identity is not None else self._verify(authorization, source)
        if cookie and (token := cookie_value(cookie, self.cookie)):
            return self.authenticate(f"Bearer {token}", None, source)
        raise AuthenticationError

    def login(self, key_id: str, secret: str, source: str, lifetime: int = LIFETIME) -> LoginToken:
        """Return a token, valid for ``lifetime`` seconds, for a caller that knows the secret. One table read; two if the signing
        secret was not read lately. Errors as :meth:`authenticate`."""
        holder = self._check_secret(key_id, secret, source).key_id
        return self._tokens.issue(holder, now=self._clock(), lifetime=lifetime)

    @property
    def takes_aws(self) -> bool:
        """True if AWS principals can log in here."""
        return self._aws is not None

    def login_with_aws(self, identity_token: str, source: str, seconds: int | None = None) -> AwsLoginToken:
        """Return a token for the signer of ``identity_token``, valid for ``seconds`` or as long as permitted; only if
        :attr:`takes_aws`. One request to AWS for each name of this server, one table read for each megabyte of rules, and the
        requests for the signing secret as for :meth:`login`.

        :class:`IdentityRefusedError` for an unconfirmed signer, or one that no rule admits; :class:`TooManyFailuresError`; and
        errors as of :meth:`graveler.access.aws_login.AwsLogin.read` and ``principal``.
        """
        assert self._aws is not None
        request = self._aws.read(identity_token)
        self._failures.check(source, request.access_key_id)
        rules = self._rules.all()
        if not rules:  # then AWS need not be asked
            raise IdentityRefusedError(
                "no rule lets AWS principals in; ask an admin to create one", request.access_key_id
            )
        try:
            principal = self._aws.principal(request)
            rule = rule_for(rules, principal.arn)
            if rule is None:
                raise IdentityRefusedError(
                    f"no rule lets {principal.arn} in; ask an admin to create one", principal.arn
                )
        except IdentityRefusedError:
            self._failures.note(source, request.access_key_id)
            raise
        name, lifetime = rule.name_of(principal), min(seconds or AWS_SECONDS, MAX_AWS_SECONDS)
        token = self._tokens.issue(
            rule.rule_id, now=self._clock(), lifetime=lifetime, name=name, principal=principal.unchosen_name
        )
        return AwsLoginToken(token, principal, rule, name)

    def create_rule(
        self,
        principal: str,
        name: str,
        role: Role,
        repositories: Sequence[str] = (),
        branches: Sequence[str] = (),
        statuses: Sequence[str] = (),
    ) -> PrincipalRule:
        """Admit AWS principals that match a pattern, limited as keys are. Cost and errors as of
        :meth:`graveler.access.principal_rules.PrincipalRules.create`."""
        return self._rules.create(principal, name, role, repositories, branches, statuses, now=self._clock())

    def rules(self) -> list[PrincipalRule]:
        """Return the rules about AWS principals, the most exact ones first. One table read for each megabyte of them."""
        return self._rules.all()

    def rule(self, rule_id: str) -> PrincipalRule:
        """Return one of the rules. One table read. :class:`PrincipalRuleNotFoundError`."""
        return self._rules.get(rule_id)

    def remove_rule(self, rule_id: str) -> PrincipalRule:
        """Remove a rule and end its tokens, as :meth:`revoke` does with a key's. :class:`PrincipalRuleNotFoundError`."""
        removed = self._rules.remove(rule_id, now=self._clock())
        self._verified.forget(rule_id)
        return removed

    def created(self, identity: Identity) -> int:
        """Return the time at which the caller's key or rule was made, in Unix seconds. One table read. :class:`KeyNotFoundError`,
        :class:`PrincipalRuleNotFoundError`."""
        return (self.rule if is_rule(identity.key_id) else self.key)(identity.key_id).created

    def logout(self, authorization: str | None, cookie: str | None) -> None:
        """End the token that a request carries: at once here, within :data:`graveler.access.verified.KEEP` seconds in other
        processes. A request with a key's secret has none. One table write."""
        token = cookie_value(cookie, self.cookie) if cookie else ""
        if authorization:
            scheme, _, credential = authorization.partition(" ")
            token = credential.strip() if scheme.lower() == "bearer" else ""
        if token:
            self._tokens.end(token, now=self._clock())
            for credential_header in {authorization or "", f"Bearer {token}"}:
                self._verified.drop(credential_header)

    def create_key(
        self,
        name: str,
        role: Role,
        repositories: Sequence[str] = (),
        branches: Sequence[str] = (),
        statuses: Sequence[str] = (),
        *,
        s3: bool = False,
    ) -> KeyWithSecret:
        """Make a key for ``name``, limited to repositories and branches that match one of the patterns (none: no limit), and for
        the role checker to names of statuses. With ``s3`` its secret is kept, sealed, to verify requests that it signs. One table
        write, and for ``s3`` the keyring's requests the first time. :class:`InvalidError` for an unusable name or pattern."""
        return self._keys.create(name, role, repositories, branches, statuses, s3=s3, now=self._clock())

    def keys(self) -> list[AccessKey]:
        """Return the live keys, by ID. One table read for each 1,000."""
        return self._keys.all()

    def key(self, key_id: str) -> AccessKey:
        """Return a live key. One table read. :class:`KeyNotFoundError`."""
        return self._keys.get(key_id)

    def has_keys(self) -> bool:
        """Return whether the lake ever had a key. One table read."""
        return self._keys.any()

    def revoke(self, key_id: str) -> AccessKey:
        """End a key and its tokens: at once here, within :data:`graveler.access.verified.KEEP` seconds in other processes. One
        table read, one transaction. :class:`KeyNotFoundError`."""
        revoked = self._keys.revoke(key_id, now=self._clock())
        self._verified.forget(key_id)
        return revoked

    def rotate_signing(self) -> tuple[Rotation, list[str]]:
        """End all tokens and presigned URLs, as :meth:`Keyring.rotate`; return also the IDs of the keys for S3 whose secrets can
        no longer be opened, since they were sealed by another key than the lake's present one. As many table reads more as
        :meth:`keys`."""
        rotation = self._keyring.rotate()
        return rotation, self._keys.unopened()

    def ensure_first_key(
        self, key_id: str | None = None, secret: str | None = None, name: str = "admin"
    ) -> KeyWithSecret | None:
        """Ensure that an admin can log in; return the new key, or None if that was possible already.

        With ``key_id`` and ``secret`` that admin's key exists afterwards. Without, a lake that never had a key gets one, and of
        several processes that start concurrently one receives its secret. At most two table requests. :class:`InvalidError` if
        one of the two is missing or weak; :class:`graveler.errors.AlreadyExistsError` if the key has another secret.
        """
        if key_id and secret:
            return self._keys.adopt(key_id, secret, name, now=self._clock())
        if key_id or secret:
            raise InvalidError("an access key ID and its secret belong together; give both, or neither")
        return self._keys.create_first(name, now=self._clock())

    def set_up(self, name: str, chosen: tuple[str, str] | None = None) -> KeyWithSecret | None:
        """Make an admin's key for a lake that never had a key, with a ``chosen`` ID and secret or with new ones; return None if
        it had one. At most two table requests. :class:`InvalidError` for an unusable ID or secret.

        Unlike :meth:`ensure_first_key` it may be called for an unauthenticated caller.
        """
        return self._keys.create_first(name, chosen, now=self._clock())

    def _verify(self, authorization: str, source: str) -> Identity:
        scheme, _, credential = authorization.partition(" ")
        if len(authorization) > _MAX_CREDENTIAL:
            raise AuthenticationError
        verified = self._clock()
        match scheme.lower():
            case "basic":
                key_id, secret = _basic(credential.strip())
                identity = self._check_secret(key_id, secret, source).identity()
            case "bearer":
                identity = self._check_token(credential.strip(), source)
            case _:
                raise AuthenticationError
        self._verified.keep(authorization, identity, verified, identity.expires)
        return identity

    def _check_secret(self, key_id: str, secret: str, source: str) -> AccessKey:
        self._failures.check(source, key_id[:128], secret)
        proof = self._keys.proof(key_id)
        if proof.key is None or not proof.is_of(secret):
            self._failures.note(source, key_id[:128], proof)
            raise AuthenticationError
        return proof.key

    def _check_token(self, token: str, source: str) -> Identity:
        # The signature comes first and costs no request: a token of ours is never refused for what others sent from its address.
        claims = self._tokens.verify(token, now=self._clock())
        if claims is None:
            self._failures.check(source, _NO_KEY)
            self._failures.note(source, _NO_KEY)
            raise AuthenticationError
        try:
            identity, ended, secret = self._holder(claims, self._tokens.ended(token))
        except NotFoundError:
            raise AuthenticationError from None
        if ended is not None or not self._tokens.still_signed(token, secret):
            raise AuthenticationError
        return replace(identity, expires=claims.exp)

    def _holder(self, claims: Claims, ended: Key) -> tuple[Identity, Item | None, Item | None]:
        if is_rule(claims.sub):
            rule, (end, secret) = self._rules.get_with(claims.sub, ended, self._tokens.row)
            return rule.identity(claims.name, claims.principal), end, secret
        key, (end, secret) = self._keys.get_with(claims.sub, ended, self._tokens.row)
        return key.identity(), end, secret


def _basic(credential: str) -> tuple[str, str]:
    try:
        key_id, colon, secret = b64decode(credential, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise AuthenticationError from None
    if not colon:
        raise AuthenticationError
    return key_id, secret


def cookie_value(header: str, name: str) -> str:
    """Return the value of a cookie in a ``cookie`` header; "" if it has none of this name."""
    for pair in header.split(";"):
        cookie_name, _, value = pair.strip().partition("=")
        if cookie_name == name:
            return value.strip('"')
    return ""
