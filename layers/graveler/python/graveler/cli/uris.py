"""The parsing of ``lakefs://repository/ref/path``, or ``graveler://repository/ref/path``, into typed values.

::

    lakefs://lake-1                        a repository; its bare name does too where only a repository can stand
    lakefs://lake-1/main                   a branch, tag or commit ID, also with ~N and ^N behind it
    lakefs://lake-1/main/data/part-0       an object; the path may hold anything, and is taken as it is
    lakefs://lake-1/main..dev              two refs, for a diff; three dots compare with their common base
    lakefs://lake-1/v1%2Frc/data/part-0    an object at the tag v1/rc

Where a path can follow, the ref ends at the first slash, so a slash in its name is written ``%2F``
(:mod:`graveler.values.addresses`). Where none can follow, it may also stand as it is: ``lakefs://lake-1/v1/rc``. Without
``lakefs://`` a ref is never decoded.

Without ``lakefs://``, an argument is in the default repository (``graveler use``): a path on its default branch where a path can
stand, else a ref, a branch or a tag. An argument that is left out, None, is the default repository or branch itself. An empty
argument is refused: it comes from a variable that is not set.

Every function raises :class:`graveler.errors.InvalidError`, and where it needs the default repository also the errors of
:func:`graveler.location.environment.find_default`.
"""

import os
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from graveler.cli.defaults import Default, default, default_branch, unbound
from graveler.errors import InvalidError
from graveler.values.addresses import SCHEME as SCHEME
from graveler.values.addresses import Address, ref_address, scheme_of, unquote_ref, without_scheme

ObjectURI: TypeAlias = Address
"""A path in a ref; or, where a prefix is expected, the beginning of paths, possibly empty."""

_PARSED: "Final[ContextVar[tuple[ObjectURI, ...]]]" = ContextVar("_PARSED", default=())

_LOCAL: Final = ("/", "./", "../", "~/")
"""The beginnings of a path of this machine, which is not taken for one in the lake."""

_BROKEN_SCHEMES: Final = ("lakefs:", "graveler:", "lakefs//", "graveler//")


@dataclass(frozen=True, slots=True)
class RefURI:
    """A ref expression, or a branch, of a repository."""

    repository: str
    ref: str

    def __str__(self) -> str:
        return ref_address(self.repository, self.ref)


@dataclass(frozen=True, slots=True)
class Sides:
    """The refs of a diff; ``from_base``: from their common base to the new one (three dots). Without a new one, the old one is a
    branch, compared with its uncommitted changes. ``path`` is an object or a folder, "" for all. ``may_be_ref`` if the path is
    the only argument, so that the user may have meant a ref."""

    repository: str
    old: str
    new: str | None
    from_base: bool
    path: str = ""
    may_be_ref: bool = False


class NoAddressError(InvalidError):
    """A text that should have been an address in a lake."""

    text: str

    def __init__(self, text: str, sentence: str) -> None:
        self.text = text
        super().__init__(sentence)


def parsed_by_command() -> tuple[ObjectURI, ...]:
    """Return what the arguments of the command named where a path could stand, for the report of an error: of each ref the first
    address."""
    return _PARSED.get()


def forget_parsed() -> None:
    """Begin a command, which has parsed nothing yet."""
    _PARSED.set(())


def parse_repository(text: str | None) -> str:
    """Return the name in ``lakefs://name``, or a bare name."""
    from graveler.history.names import check_repository

    if text is None:
        return _default(None, f"{SCHEME}REPOSITORY").repository
    name = without_scheme(text).removesuffix("/")
    if "/" in name:
        _refuse(text, "only a repository is allowed here", f"{SCHEME}REPOSITORY")
    return check_repository(name)


def parse_ref(text: str | None) -> RefURI:
    """Parse ``lakefs://repository/ref``: a branch, a tag, a commit ID, followed by ``~N``, ``^N``, ``@``."""
    repository, ref = _one(text, f"{SCHEME}REPOSITORY/REF")
    return RefURI(repository, _check_ref(ref))


def parse_branch(text: str | None) -> RefURI:
    """Parse ``lakefs://repository/branch``."""
    repository, branch = _one(text, f"{SCHEME}REPOSITORY/BRANCH")
    return RefURI(repository, expect_branch(repository, branch))


def expect_branch(repository: str, ref: str) -> str:
    """Return ``ref``, the name of a branch. :class:`InvalidError` for another ref."""
    from graveler.history.names import check_branch

    if any(mark in ref for mark in "~^@"):
        raise InvalidError(no_branch(repository, ref))
    return check_branch(ref)


def no_branch(repository: str, ref: str) -> str:
    """Return a sentence on a tag or a commit where a branch belongs."""
    return f"{ref!r} is no branch: `graveler branch create {SCHEME}{repository}/NAME {ref}` makes one there"


def parse_tag(text: str) -> RefURI:
    """Parse ``lakefs://repository/tag``."""
    from graveler.history.names import check_tag

    repository, tag = _one(text, f"{SCHEME}REPOSITORY/TAG")
    return RefURI(repository, check_tag(tag))


def parse_pull(text: str) -> RefURI:
    """Parse ``lakefs://repository/number``, of a pull request."""
    repository, number = _one(text, f"{SCHEME}REPOSITORY/NUMBER")
    if not (number.isascii() and number.isdecimal()):
        raise InvalidError(
            f"{number!r} is not the number of a pull request; `graveler pr list {repository}` lists them"
        )
    return RefURI(repository, number)


def parse_object(text: str) -> ObjectURI:
    """Parse ``lakefs://repository/ref/path``, with a path."""
    from graveler.tree.record import encode_key

    uri = parse_prefix(text)
    if not uri.path:
        _refuse(text, "a path is missing", f"{SCHEME}REPOSITORY/REF/PATH")
    encode_key(uri.path)
    return uri


def parse_prefix(text: str | None) -> ObjectURI:
    """Parse ``lakefs://repository/ref/``, optionally followed by the beginning of paths."""
    from graveler.tree.record import encode_key

    form = f"{SCHEME}REPOSITORY/REF/PATH"
    if text is None or not scheme_of(text):
        if text and text.startswith(_LOCAL):
            _refuse(text, f"it looks like a path of this machine, and paths in a lake begin without {text[0]!r}", form)
        place = _default(text, form)
        if text:
            encode_key(text)
        return ObjectURI(place.repository, default_branch(place), text or "")
    _split(text, form, whole=True)
    uri = ObjectURI.of(without_scheme(text))
    if uri.path:
        encode_key(uri.path)
    _check_ref(uri.ref)
    parsed = _PARSED.get()
    if all((uri.repository, uri.ref) != (before.repository, before.ref) for before in parsed):
        _PARSED.set((*parsed, uri))
    return uri


def refuse_addresses(sources: Sequence[str | Path], form: str) -> None:
    """Raise :class:`InvalidError` for an address in a lake among what comes from this machine; ``form`` is the right order."""
    for source in sources:
        if address := _address_of(source):
            raise InvalidError(
                f"{address!r} is in a lake, and the source comes first: write `{form}`; `graveler cp` copies within a lake"
            )


def refuse_address_as_target(target: str | Path | None, name: str, form: str) -> None:
    """Raise :class:`InvalidError` for an address in a lake in the place of ``name``, a path of this machine; ``form`` is the
    right order."""
    if target is not None and (address := _address_of(target)):
        raise InvalidError(
            f"{address!r} is in a lake, and {name} is on this machine: write `{form}`; `graveler cp` copies within a lake"
        )


def _address_of(path: str | Path) -> str:
    """Return the address in a lake that a path of this machine is, if nothing has this path; else ""."""
    scheme, slash, rest = str(path).partition(":/")  # a Path has made one slash of two
    if not slash or scheme not in ("lakefs", "graveler") or os.path.lexists(path):
        return ""
    return f"{scheme}://{rest.removeprefix('/')}"


def parse_ref_of(repository: str, text: str | None) -> str:
    """Parse a ref of a known repository: ``main``, or ``lakefs://repository/main`` of the same repository."""
    if text is None:
        place = _default(None, "BRANCH")
        if place.repository != repository:
            raise InvalidError(
                f"the branch is missing: the default repository is {place.repository!r}, but this is in {repository!r}; name the "
                "branch, too"
            )
        return default_branch(place)
    if not scheme_of(text):
        return _check_ref(text)
    uri = parse_ref(text)
    if uri.repository != repository:
        raise InvalidError(f"{text!r} is not in repository {repository!r}; both refs must be in the same repository")
    return uri.ref


def parse_branch_of(repository: str, text: str | None) -> str:
    """Parse a branch of a known repository: ``main``, or ``lakefs://repository/main`` of the same repository."""
    return expect_branch(repository, parse_ref_of(repository, text))


def parse_sides(old: str | None, new: str | None, path: str | None, *, from_base: bool = False) -> Sides:
    """Parse what a diff compares: ``lakefs://repository/A..B``, or A's URI and B, which is a URI or only a ref, each with a path
    behind it, or the URI of a path, or a path alone, or nothing, for uncommitted changes. Three dots set ``from_base``."""
    if old is None or (new is None and (".." not in old or old.startswith(_LOCAL))):
        if old is not None and scheme_of(old) and not parse_prefix(old).path:
            raise InvalidError(
                f"{old!r} names one ref; name two, as in {old.removesuffix('/')}..OTHER "
                "(for a branch's uncommitted changes, use `graveler status`)"
            )
        uri = parse_prefix(old)
        return Sides(uri.repository, uri.ref, None, False, uri.path, may_be_ref=bool(old) and not scheme_of(old or ""))
    if ".." in old:
        if path is not None:
            raise InvalidError(f"{old!r} names two refs, so only a path can follow; leave out {path!r} or {new!r}")
        repository, both = _written(old, f"{SCHEME}REPOSITORY/A..B")
        dots = "..." if "..." in both else ".."
        old_ref, _, new_ref = both.partition(dots)
        if scheme_of(old):
            old_ref, new_ref = unquote_ref(old_ref), new_ref if scheme_of(new_ref) else unquote_ref(new_ref)
        object_path = "" if new is None else _path_in_repository(new)
        return Sides(
            repository,
            _check_ref(old_ref),
            parse_ref_of(repository, new_ref),
            from_base or dots == "...",
            object_path,
        )
    base = parse_ref(old)
    object_path = "" if path is None else _path_in_repository(path)
    return Sides(base.repository, base.ref, parse_ref_of(base.repository, new), from_base, object_path)


def _path_in_repository(text: str) -> str:
    """Return a path that stands behind the refs it is in."""
    from graveler.tree.record import encode_key

    if scheme_of(text) or text.startswith(_LOCAL):
        raise InvalidError(
            f"{text!r} is not a path in the repository; behind refs, write it without {SCHEME}REPOSITORY/REF/"
        )
    encode_key(text)
    return text


def _one(text: str | None, form: str) -> tuple[str, str]:
    """Return the repository and the name in it; without ``lakefs://``, a name in the default repository."""
    repository, name = _written(text, form)
    return repository, unquote_ref(name) if text is not None and scheme_of(text) else name


def _written(text: str | None, form: str) -> tuple[str, str]:
    """Return the same as :func:`_one`, the name as it is written."""
    if text is not None and scheme_of(text):
        return _split(text, form)
    place = _default(text, form)
    return place.repository, default_branch(place) if text is None else text.removesuffix("/")


def _default(text: str | None, form: str) -> Default:
    """Return the default repository, for an argument without ``lakefs://`` or one that is left out."""
    if text == "":
        raise InvalidError(f"an argument is empty; write {form}, or leave it out where a default may stand for it")
    if text is not None and ("://" in text or text.startswith(_BROKEN_SCHEMES)):
        _refuse(text, f"it does not start with {SCHEME}", form)
    place = default()
    if place is None:
        use = f"`graveler use {SCHEME}REPOSITORY/BRANCH` chooses one{unbound()}"
        if text is None:
            raise InvalidError(f"an argument is missing: {form}, since there is no default repository; {use}")
        _refuse(text, f"it does not start with {SCHEME}, and there is no default repository ({use})", form)
    return place


def _split(text: str, form: str, *, whole: bool = False) -> tuple[str, str]:
    """Return the repository and the rest after its slash; without ``whole``, one trailing slash is dropped."""
    from graveler.history.names import check_repository

    name, _, rest = without_scheme(text).partition("/")
    if not name:
        _refuse(text, "a repository is missing; `graveler repo list` lists all repositories", form)
    check_repository(name)
    if not whole:
        rest = rest.removesuffix("/")
    if not rest:
        _refuse(text, f"nothing follows the repository; `graveler branch list {name}` lists its branches", form)
    return name, rest


def _check_ref(ref: str) -> str:
    from graveler.history.expressions import parse

    if ref.startswith("@{"):
        raise InvalidError(
            f"{ref!r} is not a valid ref: a branch, a tag or a commit ID is missing here: write main{ref}"
        )
    parse(ref)
    return ref


def _refuse(text: str, reason: str, form: str) -> NoReturn:
    shown = repr(text) if len(text) <= 100 else f"{text[:100]!r}…"
    raise NoAddressError(text, f"{shown} is not of the form {form}: {reason}")
