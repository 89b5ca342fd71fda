"""Definitions of the checks that graveler runs itself, as rules have them: JSON objects whose ``kind`` says which fields follow.

A definition names nothing that runs: commands and Lambda functions are entries of the lake's own settings
(:mod:`graveler.lake.gates.checks.check_settings`), and a rule has their names.
"""

from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from typing import Any, Final, TypeAlias, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, InvalidError
from graveler.lake.gates.checks.check_settings import CheckSettings
from graveler.model import MetarangeName
from graveler.system.extras import not_installed
from graveler.values.data_files import is_data
from graveler.values.globs import beginning, matches

MIB: Final = 1 << 20
GIB: Final = 1 << 30
_MOST_TABLES: Final = 50
_LONGEST_QUERY: Final = 100_000
_LONGEST_URL: Final = 2_000
_LONGEST_NAME: Final = 1_024
_MOST_PATTERNS: Final = 100
_LONGEST_RUN: Final = 840
"""Seconds of a check in a function of Lambda, which has 900: a minute is for copies, and for its report."""


class _Kind(Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True, omit_defaults=True):
    """A definition; its tag is the kind."""


class SqlCheck(_Kind, frozen=True, tag="sql"):
    """A query that must return no rows. ``tables`` are patterns of paths by the names of tables; the query has each of them
    twice, as ``candidate.NAME`` and as ``base.NAME``. A pattern that ends with a slash means the table in that folder.

    ``seconds`` bounds the time, ``memory`` DuckDB's memory and ``most_bytes`` the files of all tables, both in bytes."""

    query: str
    tables: Mapping[str, str]
    seconds: int = 60
    memory: int = GIB
    most_bytes: int = GIB

    @property
    def uses_base(self) -> bool:
        """True if the query may name the base's tables; else it gets none of them."""
        return "base" in self.query.lower()

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` for bounds that no check may have, or without DuckDB; the query itself is not looked at."""
        _expect_text("query", self.query, _LONGEST_QUERY)
        if not 1 <= len(self.tables) <= _MOST_TABLES:
            raise InvalidError(f"a check of SQL has {len(self.tables)} tables; give it 1 to {_MOST_TABLES}")
        for name, pattern in self.tables.items():
            if not name.isidentifier() or len(name) > 60:
                raise InvalidError(f"{name!r} cannot be the name of a table: use up to 60 letters, digits and '_'")
            _expect_text(f"the pattern of table {name!r}", pattern, _LONGEST_NAME)
        function = settings.function
        _expect_number("seconds", self.seconds, 1, 900 if function is None else _LONGEST_RUN)
        _expect_number("memory", self.memory, 64 * MIB, 64 * GIB if function is None else function.memory)
        _expect_number("most_bytes", self.most_bytes, 1, 1024 * GIB if function is None else function.most_bytes)
        if function is None and find_spec("duckdb") is None:
            raise InvalidError(
                f"{not_installed('a check of SQL', 'duckdb', 'sql')}; a deployment on AWS makes such checks if its setting "
                "check_function is true"
            )


class SchemaCheck(_Kind, frozen=True, tag="schema"):
    """New and changed Parquet files below ``prefix`` have the columns of the base's newest file there, with the same types; with
    ``mode`` ``grown`` they may have more columns, with ``unchanged`` not."""

    prefix: str
    mode: str = "grown"

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` for another mode."""
        del settings
        _expect_prefix(self.prefix)
        if self.mode not in ("grown", "unchanged"):
            raise InvalidError(f"mode is {self.mode!r}; it must be 'grown' or 'unchanged'")


class FormatsCheck(_Kind, frozen=True, tag="formats"):
    """New and changed objects that match one of the ``patterns`` begin as their suffix says: ``.parquet`` with ``PAR1``, and so
    on. Suffixes without such a beginning pass."""

    patterns: tuple[str, ...] = ("**",)

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` without patterns, or for too many."""
        del settings
        if not 1 <= len(self.patterns) <= _MOST_PATTERNS:
            raise InvalidError(f"a check of formats has {len(self.patterns)} patterns; give it 1 to {_MOST_PATTERNS}")
        for pattern in self.patterns:
            _expect_text("a pattern", pattern, _LONGEST_NAME)


class LimitsCheck(_Kind, frozen=True, tag="limits"):
    """Numbers of objects and bytes below ``prefix``, as bounds that hold: ``most_changed`` objects that are added, changed or
    removed, ``most_changed_bytes`` of those that are added or changed, ``most_removed`` objects; and of all objects of the
    candidate ``most_objects``, ``most_bytes``, ``least_objects`` and ``least_bytes``."""

    prefix: str = ""
    most_changed: int | None = None
    most_changed_bytes: int | None = None
    most_removed: int | None = None
    most_objects: int | None = None
    most_bytes: int | None = None
    least_objects: int | None = None
    least_bytes: int | None = None

    @property
    def bounds(self) -> dict[str, int]:
        """The bounds that are set."""
        values = {name: getattr(self, name) for name in self.__struct_fields__ if name != "prefix"}
        return {name: bound for name, bound in values.items() if bound is not None}

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` without a bound, or for a negative one."""
        del settings
        _expect_prefix(self.prefix)
        if not self.bounds:
            raise InvalidError("a check of limits has no bound; give it one, such as 'most_changed'")
        for name, bound in self.bounds.items():
            _expect_number(name, bound, 0, 1 << 63)


class NoDeletesCheck(_Kind, frozen=True, tag="no-deletes"):
    """No object below ``prefix`` is removed. Changed ones pass."""

    prefix: str = ""

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` for a prefix that cannot be one."""
        del settings
        _expect_prefix(self.prefix)


class MetadataCheck(_Kind, frozen=True, tag="metadata"):
    """The candidate's commit has each of the metadata ``keys``, with a value that matches its pattern (``*``, ``?``, ``[…]``)."""

    keys: Mapping[str, str]

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` without keys."""
        del settings
        if not 1 <= len(self.keys) <= _MOST_PATTERNS:
            raise InvalidError(f"a check of metadata has {len(self.keys)} keys; give it 1 to {_MOST_PATTERNS}")
        for key, pattern in self.keys.items():
            _expect_text("a key of metadata", key, _LONGEST_NAME)
            _expect_text(f"the pattern of {key!r}", pattern, _LONGEST_NAME)


class HiddenKeysCheck(_Kind, frozen=True, tag="hidden-keys"):
    """No new object below ``prefix`` hides another or is hidden: ``a`` and ``a/b`` cannot both be files of a folder."""

    prefix: str = ""

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` for a prefix that cannot be one."""
        del settings
        _expect_prefix(self.prefix)


class AddressesCheck(_Kind, frozen=True, tag="addresses"):
    """New and changed objects below ``prefix`` lie in the repository's namespace, or at an address that begins with one of
    ``allowed``."""

    prefix: str = ""
    allowed: tuple[str, ...] = ()

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` for an allowed beginning that is none of an address."""
        del settings
        _expect_prefix(self.prefix)
        for address in self.allowed:
            if "://" not in address:
                raise InvalidError(f"{address!r} is not the beginning of an address, such as 's3://bucket/folder/'")


class LiveUploadsCheck(_Kind, frozen=True, tag="live-uploads"):
    """No new object below ``prefix`` lies at an address that was issued less than ``seconds`` ago, so that somebody may still
    have a URL by which to replace its bytes. It should be the lifetime of presigned URLs at least."""

    prefix: str = ""
    seconds: int = 900

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` for a time that no URL has."""
        del settings
        _expect_prefix(self.prefix)
        _expect_number("seconds", self.seconds, 1, 8 * 86_400)


class WebhookCheck(_Kind, frozen=True, tag="webhook"):
    """A document about the candidate is sent to ``url`` (POST); 2xx passes. ``secret`` names an entry of the lake's settings by
    which the request is signed. ``seconds`` bounds all of it."""

    url: str
    secret: str = ""
    seconds: int = 10

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` for a URL that is not https, unless its host is one that the lake's settings permit, or for a
        secret that they have not."""
        _expect_text("url", self.url, _LONGEST_URL)
        try:
            parts = urlsplit(self.url)
            port = parts.port
        except ValueError as error:
            raise InvalidError(f"{self.url!r} is not a URL: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not self.url.isprintable():
            raise InvalidError(f"{self.url!r} is not a URL of a webhook; give one that begins with https://")
        if parts.username is not None or parts.password is not None or parts.fragment or " " in self.url:
            raise InvalidError(
                "the URL of a webhook has a password, a space or a fragment; sign requests with 'secret'"
            )
        if parts.scheme == "http" and not settings.permits(parts.hostname, port or 80):
            raise InvalidError(
                f"{self.url!r} is not encrypted; use https, or permit its host by 'private_hosts' in the settings of checks"
            )
        _expect_entry("secret", self.secret, settings.secrets, optional=True)
        _expect_number("seconds", self.seconds, 1, 60)


class CommandCheck(_Kind, frozen=True, tag="command"):
    """The command of this ``name`` in the lake's settings ends with exit code 0. It gets a document about the candidate."""

    name: str
    seconds: int = 300

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` for a name that the settings have not."""
        _expect_entry("command", self.name, settings.commands)
        _expect_number("seconds", self.seconds, 1, 6 * 3600)


class LambdaCheck(_Kind, frozen=True, tag="lambda"):
    """The Lambda function of this ``name`` in the lake's settings answers ``{"state": "success"}``."""

    name: str
    seconds: int = 60

    def check(self, settings: CheckSettings) -> None:
        """:class:`InvalidError` for a name that the settings have not."""
        _expect_entry("lambda", self.name, settings.lambdas)
        _expect_number("seconds", self.seconds, 1, 900 if settings.function is None else _LONGEST_RUN)


Definition: TypeAlias = (
    SqlCheck
    | SchemaCheck
    | FormatsCheck
    | LimitsCheck
    | NoDeletesCheck
    | MetadataCheck
    | HiddenKeysCheck
    | AddressesCheck
    | LiveUploadsCheck
    | WebhookCheck
    | CommandCheck
    | LambdaCheck
)

KINDS: Final = tuple(str(kind.__struct_config__.tag) for kind in get_args(Definition))
"""The kinds of checks."""

ANSWERED_LATER: Final = ("webhook", "lambda")
"""Kinds that may accept a candidate, whose status others post later."""

VERSIONS: Final[Mapping[str, int]] = dict.fromkeys(KINDS, 1)
"""The version of each kind, which changes when it decides otherwise: verdicts of earlier ones are not used again."""


class Selection(Struct, frozen=True):
    """Objects whose paths begin with ``prefix`` and match ``pattern``, if there is one. A pattern that ends with a slash matches
    the files of the table in that folder, without those that programs hide."""

    prefix: str
    pattern: str = ""

    @classmethod
    def of_table(cls, pattern: str) -> "Selection":
        """Return the objects of a table."""
        return cls(beginning(pattern), pattern)

    def selects(self, path: str, size: int) -> bool:
        """Return whether an object of ``size`` bytes is one of them."""
        if not self.pattern:
            return True
        folder = self.prefix[: self.prefix.rfind("/") + 1]
        return is_data(path[len(folder) :], size) and (self.pattern.endswith("/") or matches(self.pattern, path))


class Reads(Struct, frozen=True, kw_only=True):
    """The part of a candidate that a check reads, on which its verdict may depend: objects of the ``candidate`` and of the
    ``base``; the differences of both below the prefixes ``changes``; these fields of the ``commit``. ``trees``: it reads so
    little that both trees as a whole stand for it. ``clock``: the time, which only lets more pass. ``outside``: anything else."""

    candidate: tuple[Selection, ...] = ()
    base: tuple[Selection, ...] = ()
    changes: tuple[str, ...] = ()
    commit: tuple[str, ...] = ()
    trees: bool = False
    clock: bool = False
    outside: bool = False

    @property
    def of_tree(self) -> bool:
        """True if the verdict holds for the candidate's tree, whatever its commit and base are."""
        return not (self.base or self.changes or self.commit or self.trees or self.outside)


def reads_of(definition: Definition) -> Reads:
    """Return the part of a candidate that a check reads."""
    match definition:
        case SqlCheck():
            tables = tuple(map(Selection.of_table, definition.tables.values()))
            return Reads(candidate=tables, base=tables if definition.uses_base else ())
        case SchemaCheck():
            return Reads(base=(Selection(definition.prefix),), changes=(definition.prefix,))
        case FormatsCheck():
            return Reads(changes=tuple(dict.fromkeys(map(beginning, definition.patterns))))
        case LimitsCheck():
            return Reads(changes=(definition.prefix,), trees=True)
        case NoDeletesCheck() | AddressesCheck():
            return Reads(changes=(definition.prefix,))
        case LiveUploadsCheck():
            return Reads(changes=(definition.prefix,), clock=True)
        case MetadataCheck():
            return Reads(commit=("metadata",))
        case HiddenKeysCheck():
            return Reads(changes=("",), trees=True)
        case WebhookCheck() | CommandCheck() | LambdaCheck():
            return Reads(outside=True)


_decode: Final = msgspec.json.Decoder(Definition).decode
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def check_digest(document: Mapping[str, Any], base: MetarangeName | None) -> str:
    """Return the digest of a check, as a rule has it, for the status with its verdict. ``base`` is the tree with which the
    candidate is compared, empty for none; None for a check that reads nothing else than the candidate's tree."""
    text = _encode([VERSIONS.get(str(document.get("kind")), 0), document, base])
    return sha256(text).hexdigest()[:32]


def definition_of(document: Mapping[str, Any]) -> Definition:
    """Return the definition that a JSON object is. :class:`InvalidError`."""
    try:
        data = _encode(document)
    except (TypeError, *UNREADABLE) as error:
        raise InvalidError(f"the definition of a check is no JSON object: {error}") from None
    try:
        definition: Definition = _decode(data)
    except UNREADABLE as error:
        kind = document.get("kind")
        if kind not in KINDS:
            raise InvalidError(f"a check has the kind {kind!r}; it must be one of {', '.join(KINDS)}") from None
        raise InvalidError(f"the definition of a check of kind {kind!r} is wrong: {error}") from None
    return definition


def _expect_text(name: str, text: str, longest: int) -> None:
    if not text or len(text) > longest:
        raise InvalidError(f"{name} has {len(text)} characters; give it 1 to {longest:,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(f"{name} cannot be written as UTF-8: {error.reason}") from None


def _expect_prefix(prefix: str) -> None:
    if prefix:
        _expect_text("prefix", prefix, _LONGEST_NAME)


def _expect_number(name: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise InvalidError(f"{name} is {number}; it must be from {least} to {most}")


def _expect_entry(kind: str, name: str, entries: Mapping[str, object], *, optional: bool = False) -> None:
    if name in entries or (optional and not name):
        return
    names = ", ".join(sorted(entries)) or "none"
    raise InvalidError(
        f"the settings of checks have no {kind} {name!r}, but: {names}; add it to the file or document that GRAVELER_CHECKS names"
    )
