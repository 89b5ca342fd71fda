"""The rules of ingest: which objects are taken, where they go, and when they are committed.

The rules of a repository are one item of the table, with a version: concurrent changes are not lost, and no two overlapping rules
can be added side by side. All such items are in one partition, since an event must find its rules.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from math import ceil
from secrets import token_hex
from string import Formatter
from typing import Final

import msgspec

from graveler.errors import (
    UNREADABLE,
    AlreadyExistsError,
    BusyError,
    CorruptError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from graveler.history.names import check_branch
from graveler.ingest.events import split_address
from graveler.ingest.windows import Window
from graveler.lake.lake import Lake
from graveler.lake.opening.nesting import INGEST_RULES
from graveler.model import Repository, RepositoryUID
from graveler.storage.limits import item_bytes
from graveler.storage.tables.port import (
    MAX_ITEM_BYTES,
    Absent,
    ConditionFailedError,
    DamagedItemError,
    Item,
    Key,
    Matches,
    Tables,
    Value,
)
from graveler.storage.tables.walking import walk

PARTITION: Final = INGEST_RULES
FIELDS: Final = ("rule", "branch", "source", "objects", "deleted", "window", "reason")
"""The fields that templates may name, in braces."""
MESSAGE: Final = "Ingest {objects} objects by rule {rule}"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TRIES: Final = 16


class Deletes(str, Enum):
    """The effect of an object's deletion at its source: its entry is deleted from the branch, or kept."""

    APPLY = "apply"
    KEEP = "keep"


class Overwrites(str, Enum):
    """The effect of an object's replacement at its source: its entry is replaced, or the event is refused, for sources that write
    each object once. Since nothing is copied, entries in older commits link to the same address: their size and checksum stay,
    but the old bytes are gone."""

    REPLACE = "replace"
    REFUSE = "refuse"


class CommitPolicy(msgspec.Struct, frozen=True):
    """The conditions for a commit of ingested objects, of which any one suffices. Without conditions, only explicit commits
    commit them.

    ``objects``: after this many changes. ``seconds``: this long after the first uncommitted change. ``marker``: when an object of
    this name arrives, such as ``_SUCCESS``. ``window``: when a clock window and its lateness are over.
    """

    objects: int = 0
    seconds: int = 0
    marker: str = ""
    window: Window | None = None


class Rule(msgspec.Struct, frozen=True):
    """Objects below ``source`` (``s3://bucket/prefix/`` or ``file:///folder/``) whose key ends with one of ``suffixes`` (none:
    all) go to ``branch``, to ``destination`` plus the part of their key below the source.

    ``message`` and the values of ``metadata`` are templates: see :data:`FIELDS`. With ``verify``, size and ETag are compared with
    the store before an object is staged. ``id`` names this creation of the rule. ``since`` (Unix seconds) is when it began to
    take what it takes: of earlier events, it may have missed the newest. 0: an earlier version has written it.
    """

    name: str
    source: str
    branch: str
    destination: str = ""
    suffixes: tuple[str, ...] = ()
    deletes: Deletes = Deletes.APPLY
    overwrites: Overwrites = Overwrites.REPLACE
    commit: CommitPolicy = CommitPolicy()
    message: str = MESSAGE
    metadata: Mapping[str, str] = {}
    verify: bool = False
    id: str = ""
    since: int = 0

    @property
    def bucket(self) -> str:
        """The store, as in :class:`graveler.ingest.events.ObjectEvent`."""
        return split_address(self.source)[0]

    @property
    def prefix(self) -> str:
        """The prefix of the keys that the rule is about."""
        return split_address(self.source)[1]

    def takes(self, key: str) -> bool:
        """Return whether an object of the rule's bucket becomes part of the branch."""
        return (
            key.startswith(self.prefix) and not key.endswith("/") and (not self.suffixes or key.endswith(self.suffixes))
        )

    def is_marker(self, key: str) -> bool:
        """Return whether this object marks what came before as complete."""
        marker = self.commit.marker
        return bool(marker) and key.startswith(self.prefix) and key.rpartition("/")[2] == marker

    def path(self, key: str) -> str:
        """Return an object's path on the branch."""
        return self.destination + key[len(self.prefix) :]


class DamagedRule(msgspec.Struct, frozen=True):
    """A rule that cannot be read, and the reason; without a ``name``, all of its repository. It may concern objects that begin
    with one of ``sources``: everything, if these are unknown."""

    name: str
    reason: str
    sources: tuple[str, ...] = ("",)

    def may_take(self, address: str) -> bool:
        """Return whether an object with this address may be one of its."""
        return address.startswith(self.sources)


class RepositoryRules(msgspec.Struct, frozen=True):
    """The rules of one repository, by name, those that cannot be read, and the version of their item (0: none). ``repository`` is
    empty if not even that can be read."""

    repository: str
    uid: RepositoryUID
    rules: tuple[Rule, ...] = ()
    version: int = 0
    damaged: tuple[DamagedRule, ...] = ()


class RuleStore:
    """The rules of all repositories of a lake."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def all(self) -> Iterator[RepositoryRules]:
        """Yield the rules of every repository that has any; unreadable ones are named, and do not prevent reading the others. One
        table read per thousand repositories with rules."""
        for sort, item in walk(self._tables, PARTITION):
            uid = RepositoryUID(sort.decode(errors="backslashreplace"))
            if isinstance(item, DamagedItemError):
                yield RepositoryRules("", uid, damaged=(DamagedRule("", str(item)),))
            else:
                yield _decode(uid, item)

    def of(self, repository: Repository) -> RepositoryRules:
        """Return the rules of one repository. One table read. :class:`CorruptError` if one of them cannot be read."""
        item = self._tables.get(_key(repository.uid))
        if item is None:
            return RepositoryRules(repository.name, repository.uid)
        rules = _decode(repository.uid, item)
        if rules.damaged:
            raise CorruptError(rules.damaged[0].reason)
        return rules

    def left_by(self, uid: RepositoryUID) -> tuple[Rule, ...]:
        """Return the rules of a repository that is gone, as far as they can be read. One table read."""
        try:
            item = self._tables.get(_key(uid))
        except DamagedItemError:
            return ()
        return () if item is None else _decode(uid, item).rules

    def add(self, lake: Lake, repository: str, rule: Rule) -> Rule:
        """Add a rule, and return it with its new ID. One table read of the repository, one of the rules, listing the
        repositories, one table write.

        :class:`InvalidError` for a rule that is invalid, overlaps another, or takes from where a repository of the lake writes;
        :class:`ForbiddenError` if the repository does not allow the source; :class:`AlreadyExistsError` for the name;
        :class:`RefNotFoundError` for the branch; :class:`BusyError`.
        """
        checked = _checked(lake, repository, rule)
        new_rule = msgspec.structs.replace(rule, id=token_hex(8), since=ceil(lake.clock.now()))

        def change(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
            if new_rule in rules:
                return rules  # only the response to the write was lost
            for other in rules:
                _refuse_overlap(new_rule, other)
            return (*rules, new_rule)

        self.change(checked, change)
        return new_rule

    def put(self, lake: Lake, repository: str, rule: Rule) -> Rule:
        """Replace the rule of this name, or add it; idempotent. It remains the same rule, with its ID, as long as its source and
        destination are the same: then its recorded events still count; else it starts anew. Cost and errors as :meth:`add`,
        except for the name."""
        checked = _checked(lake, repository, rule)
        fresh, now = token_hex(8), ceil(lake.clock.now())
        new_rule = rule

        def change(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
            nonlocal new_rule
            before = next((existing for existing in rules if existing.name == rule.name), None)
            other_rules = tuple(existing for existing in rules if existing.name != rule.name)
            new_rule = msgspec.structs.replace(rule, id=fresh, since=now)
            if before is not None and not _moved(before, rule):
                new_rule = msgspec.structs.replace(new_rule, id=before.id)
                if _takes_the_same(before, rule):
                    new_rule = msgspec.structs.replace(new_rule, since=before.since)
            for other_rule in other_rules:
                _refuse_overlap(new_rule, other_rule)
            return (*other_rules, new_rule)

        self.change(checked, change)
        return new_rule

    def get(self, repository: Repository, name: str) -> Rule:
        """Return the rule of this name. One table read. :class:`NotFoundError`."""
        for rule in self.of(repository).rules:
            if rule.name == name:
                return rule
        raise _no_such_rule(repository, name)

    def remove(self, repository: Repository, name: str) -> Rule:
        """Remove a rule; its staged changes stay. One table read, one write. :class:`NotFoundError`, :class:`BusyError`."""
        removed: list[Rule] = []

        def change(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
            removed[:] = [
                rule for rule in rules if rule.name == name
            ] or removed  # or the response to the write was lost
            if not removed:
                raise _no_such_rule(repository, name)
            return tuple(rule for rule in rules if rule.name != name)

        self.change(repository, change)
        return removed[0]

    def change(self, repository: Repository, change: Callable[[tuple[Rule, ...]], tuple[Rule, ...]]) -> None:
        """Replace the rules of a repository by what ``change`` makes of them, unchecked. One table read, one write; both again,
        and ``change`` too, if others were faster. :class:`InvalidError` if they do not fit, :class:`BusyError`."""
        for _ in range(_TRIES):
            before = self.of(repository)
            after = change(before.rules)
            if after == before.rules:
                return
            item: dict[str, Value] = {
                "repository": repository.name,
                "rules": msgspec.msgpack.encode(after),
                "sources": sorted({rule.source for rule in after}),  # to know which events damaged rules concern
                "version": before.version + 1,
            }
            key = _key(repository.uid)
            if item_bytes(key, item) > MAX_ITEM_BYTES and len(after) > len(before.rules):
                raise InvalidError(
                    f"repository {repository.name!r} has {len(before.rules):,} ingest rules, and no more fit into "
                    f"{MAX_ITEM_BYTES:,} bytes; replace several by one with a common source, or use another repository"
                )
            condition = Matches({"version": before.version}) if before.version else Absent()
            try:
                self._tables.put(key, item, condition)
            except ConditionFailedError:
                continue
            return
        raise BusyError(
            f"the ingest rules of {repository.name!r} are being changed by too many others at once; try again"
        )


def check_rule(rule: Rule) -> None:
    """Refuse an invalid rule, with :class:`InvalidError`."""
    if not _NAME.fullmatch(rule.name):
        raise InvalidError(
            f"{rule.name!r} is not the name of a rule: 1 to 64 letters, digits, '_', '-', '.', starting with a letter or digit"
        )
    check_branch(rule.branch)
    _, prefix = split_address(rule.source)
    for field, text in (("source", rule.source), ("destination", rule.destination), ("marker", rule.commit.marker)):
        _check_text(field, text)
    if prefix and not prefix.endswith("/"):
        raise InvalidError(f"source {rule.source!r} must name a folder: write {rule.source + '/'!r}")
    if rule.destination and (not rule.destination.endswith("/") or rule.destination.startswith("/")):
        raise InvalidError(
            f"destination {rule.destination!r} must be empty or end with '/', and must not start with it"
        )
    for suffix in rule.suffixes:
        _check_text("suffix", suffix)
        if not suffix:
            raise InvalidError("an empty suffix matches everything; leave the suffixes out instead")
    policy = rule.commit
    if policy.objects < 0 or policy.seconds < 0:
        raise InvalidError(
            f"cannot commit after {policy.objects} objects or {policy.seconds} seconds; neither can be negative"
        )
    if "/" in policy.marker:
        raise InvalidError(f"marker {policy.marker!r} is a path; give the last part of the key, such as _SUCCESS")
    if policy.window is not None:
        policy.window.check()
    for template in (rule.message, *rule.metadata.values()):
        _check_template(template)
    for name in rule.metadata:
        _check_text("metadata key", name)
    if not rule.message:
        raise InvalidError("the message of a rule must not be empty; leave it out for the default one")


def _checked(lake: Lake, repository: str, rule: Rule) -> Repository:
    """Return the repository, if it may have such a rule."""
    check_rule(rule)
    opened = lake.repository(repository)
    allowed = opened.repository.settings.import_sources
    if allowed is not None and not rule.source.startswith(allowed):
        raise ForbiddenError(
            f"repository {repository!r} does not allow objects of {rule.source!r}; see `graveler repo import-sources`"
        )
    opened.expect_changes(rule.branch)
    opened.store_at(rule.source + "object")  # refuses a source whose objects nobody could read
    _refuse_loops(lake, rule)
    return opened.repository


def _moved(before: Rule, after: Rule) -> bool:
    scopes = [(rule.source, rule.branch, rule.destination) for rule in (before, after)]
    return scopes[0] != scopes[1]


def _takes_the_same(before: Rule, after: Rule) -> bool:
    """Return whether both rules take the same objects of their location."""
    took = [(rule.suffixes, rule.deletes, rule.commit.marker) for rule in (before, after)]
    return took[0] == took[1]


def _no_such_rule(repository: Repository, name: str) -> NotFoundError:
    return NotFoundError(f"repository {repository.name!r} has no ingest rule {name!r}; list the existing ones")


def _refuse_loops(lake: Lake, rule: Rule) -> None:
    after = ""
    while True:
        page = lake.repositories(after=after)
        for repository in page.results:
            if _nested(rule.source, repository.namespace + "/"):
                raise InvalidError(
                    f"source {rule.source!r} and the storage namespace {repository.namespace!r} of repository "
                    f"{repository.name!r} overlap: files that graveler writes there would be ingested; choose another source"
                )
        if page.next_after is None:
            return
        after = page.next_after


def _refuse_overlap(rule: Rule, other: Rule) -> None:
    if rule.name == other.name:
        raise AlreadyExistsError("ingest rule", rule.name, "remove it first, or choose another name")
    if not _suffixes_meet(rule.suffixes, other.suffixes):
        return
    if _nested(rule.source, other.source):
        raise InvalidError(
            f"source {rule.source!r} overlaps {other.source!r} of rule {other.name!r}: an object would be ingested twice; "
            "choose another source, or suffixes that do not end with any of the other rule's"
        )
    if rule.branch == other.branch and _nested(rule.destination, other.destination):
        raise InvalidError(
            f"destination {rule.destination!r} overlaps {other.destination!r} of rule {other.name!r} on branch {rule.branch!r}: "
            "two sources would write to one path; choose another destination"
        )


def _nested(folder: str, other: str) -> bool:
    return folder.startswith(other) or other.startswith(folder)


def _suffixes_meet(suffixes: Sequence[str], other_suffixes: Sequence[str]) -> bool:
    """Return whether a key can end with one of both. An empty sequence matches any key."""
    if not suffixes or not other_suffixes:
        return True
    return any(
        suffix.endswith(other_suffix) or other_suffix.endswith(suffix)
        for suffix in suffixes
        for other_suffix in other_suffixes
    )


def _check_text(field: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidError(f"{field} {text!r} cannot be written as UTF-8") from None
    if "\0" in text:
        raise InvalidError(f"{field} {text!r} contains NUL")


def _check_template(template: str) -> None:
    _check_text("template", template)
    try:
        named = [(field, spec, how) for _, field, spec, how in Formatter().parse(template) if field is not None]
    except ValueError as error:
        raise InvalidError(f"template {template!r} cannot be read: {error}; write a brace as {{{{ or }}}}") from None
    for field, spec, how in named:
        if field not in FIELDS or spec or how:
            raise InvalidError(
                f"template {template!r} contains {field!r}; only plain fields are allowed: {', '.join(FIELDS)}"
            )


def _key(uid: RepositoryUID) -> Key:
    return Key(PARTITION, uid.encode())


def _decode(uid: RepositoryUID, item: Item) -> RepositoryRules:
    """Return the rules that an item holds, and the damaged ones."""
    packed, version, named = item.get("rules"), item.get("version"), item.get("repository")
    repository = named if isinstance(named, str) else ""
    sources = item.get("sources")
    where = tuple(sources) if isinstance(sources, list) else ("",)
    body = packed if isinstance(packed, bytes) else b""
    try:
        number = msgspec.convert(version, int)
        if not repository:
            raise msgspec.ValidationError("it does not name a repository")
        try:
            return RepositoryRules(repository, uid, _all_rules(body), number)
        except UNREADABLE:
            decoded = [_decode_one(uid, raw, where) for raw in _raw_rules(body)]
    except UNREADABLE as error:
        reason = _unreadable(uid, "the item", str(error))
        return RepositoryRules(repository, uid, damaged=(DamagedRule("", reason, where),))
    rules = tuple(rule for rule in decoded if isinstance(rule, Rule))
    return RepositoryRules(
        repository, uid, rules, number, tuple(rule for rule in decoded if isinstance(rule, DamagedRule))
    )


def _decode_one(uid: RepositoryUID, raw: msgspec.Raw, where: tuple[str, ...]) -> Rule | DamagedRule:
    try:
        return msgspec.msgpack.decode(raw, type=Rule)
    except UNREADABLE as error:
        cause = str(error)
    try:
        named = msgspec.msgpack.decode(raw, type=_Named)
    except UNREADABLE:
        named = _Named()
    reason = _unreadable(uid, f"rule {named.name!r} in the item" if named.name else "a rule in the item", cause)
    return DamagedRule(named.name, reason, (named.source,) if named.source else where)


class _Named(msgspec.Struct, frozen=True):
    """The fields read from a damaged rule."""

    name: str = ""
    source: str = ""


_all_rules = msgspec.msgpack.Decoder(tuple[Rule, ...]).decode
_raw_rules = msgspec.msgpack.Decoder(tuple[msgspec.Raw, ...]).decode


def _unreadable(uid: RepositoryUID, damaged: str, cause: str) -> str:
    return (
        f"{damaged} of the ingest rules of repository {uid} cannot be read: {cause}; unless a newer version wrote it, restore it "
        f"from a copy of the table (partition {PARTITION}, sort key {uid})"
    )
