"""Logging in by AWS: the identity of a signed request to STS is what AWS says."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from graveler.access.aws_principals import AwsPrincipal, read_principal
from graveler.access.identity_tokens import SignedRequest, read_identity_token
from graveler.access.sts import Sts
from graveler.errors import InvalidError

MAX_NAMES: Final = 4
"""Maximum number of a server's names: each may cost a request to AWS at a login."""

_NAME: Final = re.compile(r"[!-~]{1,256}")


class AwsLogin:
    """Identifies the signer of an identity token for a server of one of ``names``. :class:`InvalidError` for no name, too many,
    or one that is invalid in a header. Shared by threads."""

    def __init__(self, names: Sequence[str], sts: Sts | None = None, clock: Callable[[], float] = time.time) -> None:
        if not 1 <= len(names) <= MAX_NAMES:
            raise InvalidError(
                f"a server must have 1 to {MAX_NAMES} names that clients sign for AWS logins, not {len(names)}"
            )
        for name in names:
            if not _NAME.fullmatch(name):
                raise InvalidError(
                    f"server name {name[:256]!r} must be 1 to 256 printable ASCII characters without spaces"
                )
        self._names = tuple(names)
        self._sts = sts or Sts()
        self._clock = clock

    def read(self, token: str) -> SignedRequest:
        """Return the request that a token makes to AWS. No request. Errors as :func:`read_identity_token`."""
        return read_identity_token(token, self._clock())

    def principal(self, request: SignedRequest) -> AwsPrincipal:
        """Return the signer of the request. Requests and errors as of :meth:`Sts.caller`."""
        return read_principal(self._sts.caller(request, self._names))
