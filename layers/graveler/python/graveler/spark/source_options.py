"""Parsing of the options of Spark's data source ``graveler``, with errors that name the option and the accepted values."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from graveler.errors import InvalidError


def lower(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options under their names in lower case, since Spark ignores their case."""
    return {name.lower(): value for name, value in options.items()}


def expect_known(given: Collection[str], known: Collection[str], others: Collection[str] = ()) -> None:
    """Refuse an option that is none of the ``known`` ones, in any case, with :class:`InvalidError`, which also suggests
    ``others``."""
    unknown = next((name for name in given if name.lower() not in map(str.lower, known)), None)
    if unknown is not None:
        names = {name.lower(): name for name in (*known, *others)}
        like = get_close_matches(unknown.lower(), names, 1)
        meant = f"; is {names[like[0]]!r} meant?" if like else "."
        raise InvalidError(f"the data source graveler has no option {unknown!r}{meant} It has {', '.join(known)}")


def needed(given: Mapping[str, str], name: str) -> str:
    """Return the value of an option. :class:`InvalidError` if it is missing or empty."""
    value = given.get(name.lower(), "")
    if not value:
        raise InvalidError(f"the data source graveler needs the option {name!r}")
    return value


def number(given: Mapping[str, str], name: str, default: int, *, least: int = 1) -> int:
    """Return a number of at least ``least``. :class:`InvalidError` for anything else."""
    text = given.get(name.lower(), "")
    if not text:
        return default
    if not text.isdecimal() or int(text) < least:
        raise InvalidError(f"option {name!r} is {text!r}; give a number of at least {least}")
    return int(text)


def one_of(given: Mapping[str, str], name: str, choices: Collection[str], default: str) -> str:
    """Return one of some words, in any case. :class:`InvalidError` for another one."""
    text = given.get(name.lower(), "") or default
    if text.lower() not in choices:
        raise InvalidError(f"option {name!r} is {text!r}; give one of {', '.join(choices)}")
    return text.lower()


def flag(given: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Return ``true`` or ``false`` as a boolean. :class:`InvalidError` for another word."""
    return one_of(given, name, ("true", "false"), "true" if default else "false") == "true"


def words(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return words that are separated by commas."""
    return tuple(word.strip() for word in given.get(name.lower(), "").split(",") if word.strip())
