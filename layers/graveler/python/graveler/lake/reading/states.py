"""States of branches as text, which a client carries from one page of a listing to the next: its head, and the tokens under which
changes were staged, when the first page was read.

The text proves that this repository issued it, for this branch and at this time, as a client must not choose what is read. It is
base64 of a MessagePack array and the first 16 bytes of an HMAC-SHA256 under the repository's secret.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import InvalidError
from graveler.history.expressions import is_base, keys_of
from graveler.history.names import is_branch
from graveler.lake.parts import RepositoryParts
from graveler.lake.reading.view import LONGEST, took_too_long
from graveler.storage.tables.port import Item, Key

_PROOF_BYTES: Final = 16
_PURPOSE: Final = b"the state of a branch"


class _State(Struct, frozen=True, array_like=True):
    """The contents of the text. ``issued`` is in Unix seconds."""

    commit: str
    open: str
    sealed: list[str]
    issued: float


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_State).decode


def pinned_items(repository: RepositoryParts, ref: str, text: str) -> tuple[dict[Key, Item | None], str]:
    """Return the items that resolve ``ref``, as of the state that ``text`` names or, without one, as of now; and the text of that
    state, which is empty for anything but the plain name of a branch.

    Cost: resolving a name without a text, else none. :class:`InvalidError` for a text that was not issued for this ref,
    :class:`PreconditionError` for one that is too old.
    """
    refs, now = repository.refs, repository.clock.now()
    keys = keys_of(ref, refs, repository.commits)
    if text:
        state = _read(repository, ref, text)
        if now - state.issued > LONGEST:
            raise took_too_long(ref)
        item: Item = {"commit": state.commit, "open": state.open, "sealed": list(state.sealed)}
        absent: dict[Key, Item | None] = dict.fromkeys(keys)
        return {**absent, refs.branch_key(ref): item}, text
    if not keys:
        return {}, ""
    items = dict(zip(keys, refs.read_many(keys), strict=True))
    branch = refs.decode_branch(ref, items.get(refs.branch_key(ref))) if is_branch(ref) and is_base(ref) else None
    if branch is None:
        return items, ""
    return items, _text(repository, ref, _State(branch.commit_id, branch.open, list(branch.sealed), now))


def _text(repository: RepositoryParts, ref: str, state: _State) -> str:
    packed = _encode(state)
    return urlsafe_b64encode(packed + _proof(repository, ref, packed)).decode()


def _read(repository: RepositoryParts, ref: str, text: str) -> _State:
    try:
        whole = urlsafe_b64decode(text.encode())
        packed, proof = whole[:-_PROOF_BYTES], whole[-_PROOF_BYTES:]
        if is_branch(ref) and hmac.compare_digest(_proof(repository, ref, packed), proof):
            return _decode(packed)
    except (ValueError, msgspec.DecodeError):
        pass
    raise InvalidError(
        f"{text[:100]!r} is not a state of {ref!r} in this repository; leave it out to read the present one"
    )


def _proof(repository: RepositoryParts, ref: str, packed: bytes) -> bytes:
    fields = [_PURPOSE, repository.record.repository.uid.encode(), ref.encode(), packed]
    message = b"".join([len(field).to_bytes(4, "big") + field for field in fields])
    return hmac.digest(repository.record.secret, message, sha256)[:_PROOF_BYTES]
