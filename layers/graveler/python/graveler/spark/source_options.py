"""Parsing of the options of Spark's data source ``graveler``, with errors that name the option and the accepted values."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from graveler.errors import InvalidError


def lower(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options under their names in lower case, since Spark ignores their case."""
    return {name.lower(): value for name, value in options.items()}


def expect_known(options: Collection[str], known_names: Collection[str], other_names: Collection[str] = ()) -> None:
    """Refuse an option that is not among ``known_names``, in any case, with :class:`InvalidError`, which also suggests
    ``other_names``."""
    unknown = next((name for name in options if name.lower() not in map(str.lower, known_names)), None)
    if unknown is not None:
        names = {name.lower(): name for name in (*known_names, *other_names)}
        like = get_close_matches(unknown.lower(), names, 1)
        meant = f"; is {names[like[0]]!r} meant?" if like else "."
        raise InvalidError(f"the data source graveler has no option {unknown!r}{meant} It has {', '.join(known_names)}")


def needed(options: Mapping[str, str], name: str) -> str:
    """Return the value of an option. :class:`InvalidError` if it is missing or empty."""
    value = options.get(name.lower(), "")
    if not value:
        raise InvalidError(f"the data source graveler needs the option {name!r}")
    return value


def number(options: Mapping[str, str], name: str, default: int, *, least: int = 1) -> int:
    """Return a number of at least ``least``. :class:`InvalidError` for anything else."""
    text = options.get(name.lower(), "")
    if not text:
        return default
    if not text.isdecimal() or int(text) < least:
        raise InvalidError(f"option {name!r} is {text!r}; give a number of at least {least}")
    return int(text)


def one_of(options: Mapping[str, str], name: str, choices: Collection[str], default: str) -> str:
    """Return one of some words, in any case. :class:`InvalidError` for another one."""
    text = options.get(name.lower(), "") or default
    if text.lower() not in choices:
        raise InvalidError(f"option {name!r} is {text!r}; give one of {', '.join(choices)}")
    return text.lower()


def flag(options: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Return ``true`` or ``false`` as a boolean. :class:`InvalidError` for another word."""
    return one_of(options, name, ("true", "false"), "true" if default else "false") == "true"


def words(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return words that are separated by commas."""
    return tuple(word.strip() for word in options.get(name.lower(), "").split(",") if word.strip())
