"""A repository's settings: their meaning, their form in the repository's item in the table, and the changes that they refuse.

The settings are attributes of the repository's item, each omitted where it does not apply: ``read_only`` (true), ``metadata``
(a JSON object), ``protected`` (a list of patterns), ``retention`` (a JSON object), ``import_sources`` (a list of prefixes),
``rules`` (a JSON list) and ``rules_version`` (a number, which stays once there were rules).
A verb that changes a branch reads this item together with the branch's, in one request, so checking a change costs none.

A *protected* branch refuses direct changes: staging, reset, commit, import, moving it by hand, and deleting it,
after which another one could take its name. Merge, revert and cherry-pick bring what was committed elsewhere, and are allowed.
Hidden branches are never protected: they exist to be worked on and merged, like those of transactions, and a pattern such as
``*`` means the branches that people see. A *read-only* repository refuses every change that is not forced.
"""

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, CorruptError, InvalidError, ProtectedBranchError, ReadOnlyRepositoryError
from graveler.lake.text import utf8
from graveler.model import RetentionRules, Rule, Rules, Settings
from graveler.storage.tables.port import Item, Value

READ_ONLY: Final = "read_only"
METADATA: Final = "metadata"
PROTECTED: Final = "protected"
RETENTION: Final = "retention"
IMPORT_SOURCES: Final = "import_sources"
RULES: Final = "rules"
RULES_VERSION: Final = "rules_version"
ATTRIBUTES: Final = (READ_ONLY, METADATA, PROTECTED, RETENTION, IMPORT_SOURCES, RULES, RULES_VERSION)

_MAX_PATTERN: Final = 255
_PATTERN_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-*?")
_MAX_SOURCES: Final = 100
_SOURCE: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\x00-\x1f\x7f\ud800-\udfff]{0,1024}")

_metadata = msgspec.json.Decoder(dict[str, str]).decode
_retention = msgspec.json.Decoder(RetentionRules).decode
_rules = lru_cache(maxsize=64)(msgspec.json.Decoder(tuple[Rule, ...]).decode)
"""Decodes the rules, which most verbs of a repository with rules read."""
_encode = msgspec.json.Encoder(order="deterministic").encode


NO_RULES: Final = Rules()


class Intent(Struct, frozen=True):
    """The way in which a verb changes a branch: ``direct``, not by bringing commits; ``force`` overrides a read-only repository.
    ``accept`` is a check by the caller: it raises for settings that refuse the change."""

    direct: bool
    force: bool = False
    accept: Callable[[Settings], None] | None = None

    def check(self, repository: str, item: Item, branch: str, *, hidden: bool = False) -> None:
        """Raise :class:`ReadOnlyRepositoryError` or :class:`ProtectedBranchError` if the settings in the repository's item refuse
        the change. ``hidden``: whether the branch is."""
        if item.get(READ_ONLY) is True and not self.force:
            raise ReadOnlyRepositoryError(repository)
        patterns = item.get(PROTECTED)
        if self.direct and not hidden and isinstance(patterns, list):
            pattern = protecting(branch, patterns)
            if pattern is not None:
                raise ProtectedBranchError(branch, pattern)
        if self.accept is not None:
            self.accept(decode_settings(repository, item))


def protecting(branch: str, patterns: Iterable[str]) -> str | None:
    """Return the first of these patterns that protects a branch of this name, if one does."""
    return next((pattern for pattern in patterns if fnmatchcase(branch, pattern)), None)


def etag(protected: tuple[str, ...]) -> str:
    """Return the identifier of a state of the protection rules; empty without rules."""
    return sha256("\n".join(sorted(protected)).encode()).hexdigest()[:32] if protected else ""


def check_settings(settings: Settings) -> None:
    """Check the settings; :class:`InvalidError` for settings that no repository can have."""
    for key, value in settings.metadata.items():
        utf8("metadata key", key)
        utf8(f"metadata value of {key!r}", value)
        if not key:
            raise InvalidError(f"metadata value {value!r} has an empty key; give it one")
    for pattern in settings.protected:
        if not pattern or len(pattern) > _MAX_PATTERN or not _PATTERN_CHARS.issuperset(pattern):
            raise InvalidError(
                f"{pattern!r} is not a pattern of branch names: letters, digits, '_', '-', and the wildcards '*' and '?', "
                f"at most {_MAX_PATTERN} characters"
            )
    if len(settings.import_sources or ()) > _MAX_SOURCES:
        raise InvalidError(
            f"{len(settings.import_sources or ())} import sources are too many; give at most {_MAX_SOURCES}"
        )
    for prefix in settings.import_sources or ():
        if not _SOURCE.fullmatch(prefix):
            raise InvalidError(
                f"import source {prefix!r} is not an address; write it as s3://bucket/folder/ or file:///folder/"
            )
    if settings.retention is not None:
        for branch, days in (("the default", settings.retention.default_days), *settings.retention.branches.items()):
            utf8("branch name", branch)
            if days < 1:
                raise InvalidError(f"{days} days of retention for {branch!r} are not enough; give at least 1")


def settings_attributes(settings: Settings) -> dict[str, Value]:
    """Return the attributes for these settings; those that do not apply are omitted."""
    attributes: dict[str, Value] = {}
    if settings.read_only:
        attributes[READ_ONLY] = True
    if settings.metadata:
        attributes[METADATA] = _encode(settings.metadata).decode()
    if settings.protected:
        attributes[PROTECTED] = list(settings.protected)
    if settings.retention is not None:
        attributes[RETENTION] = _encode(settings.retention).decode()
    if settings.import_sources is not None:
        attributes[IMPORT_SOURCES] = list(settings.import_sources)
    if settings.rules.rules:
        attributes[RULES] = _encode(settings.rules.rules).decode()
    if settings.rules.version:
        attributes[RULES_VERSION] = settings.rules.version
    return attributes


def decode_settings(name: str, item: Item) -> Settings:
    """Return the settings in the item of repository ``name``. :class:`CorruptError` if they are invalid."""
    if not any(attribute in item for attribute in ATTRIBUTES):
        return Settings()
    read_only, patterns = item.get(READ_ONLY, False), item.get(PROTECTED, [])
    metadata, retention, sources = item.get(METADATA), item.get(RETENTION), item.get(IMPORT_SOURCES)
    try:
        if not (isinstance(read_only, bool) and isinstance(patterns, list)):
            raise msgspec.ValidationError(f"{READ_ONLY} is {read_only!r}, {PROTECTED} is {patterns!r}")
        if not (sources is None or isinstance(sources, list)):
            raise msgspec.ValidationError(f"{IMPORT_SOURCES} is {sources!r}")
        return Settings(
            read_only,
            {} if metadata is None else _metadata(_text(metadata)),
            tuple(patterns),
            None if retention is None else _retention(_text(retention)),
            None if sources is None else tuple(sources),
            rules_in(item),
        )
    except UNREADABLE as error:
        raise CorruptError(f"the settings of repository {name!r} in the table are damaged: {error}") from None


def rules_in(item: Item) -> Rules:
    """Return the rules in a repository's item. ``msgspec.ValidationError`` if they are invalid."""
    version, text = item.get(RULES_VERSION), item.get(RULES)
    if version is None and text is None:
        return NO_RULES
    if not isinstance(version, int):
        raise msgspec.ValidationError(f"{RULES_VERSION} is {version!r}")
    return Rules(version, () if text is None else _rules(_text(text)))


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise msgspec.ValidationError(f"expected text, got {value!r}")
    return value
