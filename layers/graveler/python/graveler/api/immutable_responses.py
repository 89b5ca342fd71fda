"""Responses that never change: reads of commits that are named by their whole IDs.

They have a weak ETag, so a client that keeps one asks whether it still fits, as it must: its key may have been revoked, the
repository deleted. The ETag is a digest of the body, so it is the same in all processes, and another one if a later version
renders the same commit differently. A process remembers the ETags that clients named, once it has computed them: it responds to
the next client that names one with a 304, without computing it again.

A branch or a tag may be called like a commit, and its contents are no response about that commit once it is deleted. So an ETag
is remembered only if each ref named its commit after the response was computed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from xxhash import xxh3_128_hexdigest

from graveler.api.call import Call
from graveler.api.negotiation import names_tag
from graveler.api.response import Response, no_content
from graveler.history.commits import is_commit_id
from graveler.model import RepositoryUID

MAY_CHANGE: Final = {"cache-control": "no-cache"}
"""Headers by which a handler says that its response to a read of commits may be another one next time."""
_KEEPING: Final = "private, no-cache"
_RECENT: Final = 1024
_LONGEST: Final = 2048
"""Limits of the memory, in entries and in characters of an address: any client may request anything."""


class _Entry(Struct, frozen=True):
    """The ETag of a response, and the repository that it is about."""

    repository: RepositoryUID
    tag: str


class ImmutableResponses:
    """The ETags that clients named lately, by address."""

    def __init__(self) -> None:
        self._recent: dict[str, _Entry] = {}

    def respond(self, call: Call, repository: str, refs: Sequence[str], compute: Callable[[], Response]) -> Response:
        """Return the response to a read of ``refs``, whole IDs of commits, that the caller is permitted: the computed one with an
        ETag, or a 304. Cost: a 304 that is remembered takes one table read, and one for each further ref; one that is computed
        takes these besides."""
        condition = call.headers.get("if-none-match", "")
        if condition:
            tag = self._remembered(call, repository, refs, condition)
            if tag:
                return no_content(_headers(tag), 304)
        response = compute()
        if response.status != 200 or "cache-control" in response.headers or call.signed_urls:
            return response
        assert isinstance(response.body, bytes)  # JSON
        tag = f'W/"{xxh3_128_hexdigest(response.body)}"'
        if condition and names_tag(condition, tag):
            self._remember(call, repository, refs, tag)
            return no_content(_headers(tag), 304)
        response.headers.update(_headers(tag))
        return response

    def _remembered(self, call: Call, repository: str, refs: Sequence[str], condition: str) -> str:
        """Return the remembered ETag if ``condition`` names it, and the refs still mean these commits of the same repository."""
        entry = self._recent.get(call.address)
        if entry is None or not names_tag(condition, entry.tag):
            return ""
        return entry.tag if _repository_of(call, repository, refs) == entry.repository else ""

    def _remember(self, call: Call, repository: str, refs: Sequence[str], tag: str) -> None:
        if len(call.address) > _LONGEST or (uid := _repository_of(call, repository, refs)) is None:
            return
        if len(self._recent) >= _RECENT:
            self._recent.clear()
        self._recent[call.address] = _Entry(uid, tag)


def commits_in(names: Sequence[str], parameters: Mapping[str, str]) -> list[str]:
    """Return the refs among a route's parameters, those with these ``names``, if all are whole IDs of commits; else none."""
    refs = [parameters[name] for name in names]
    return refs if all(map(is_commit_id, refs)) else []


def _repository_of(call: Call, repository: str, refs: Sequence[str]) -> RepositoryUID | None:
    """Return the repository in which each of the refs, whole IDs of commits, names its commit now; None if one is another ref's
    name."""
    opened = call.lake.repository(repository, refs[0])
    return opened.repository.uid if all(opened.commit_of(ref).id == ref for ref in refs) else None


def _headers(tag: str) -> dict[str, str]:
    return {"etag": tag, "cache-control": _KEEPING}
