"""The configuration of a user: the name of the author of commits; profiles, each with a lake, the key for it, and a default
repository and branch; and the default of each lake that no profile names.

The file is ``graveler/config.toml`` in XDG_CONFIG_HOME, else in ``~/.config``, or the one that GRAVELER_CONFIG names::

    user = "Ada Lovelace"                   # also within a profile, which comes first

    [profiles.default]
    endpoint = "https://lake.example.org"   # or lake = "/data/lake", or lake = "dynamodb://TABLE" with objects = "s3://…"
    key_id = "AKIA…"
    secret_key = "…"
    repository = "sales"
    branch = "main"

It is for its owner alone: it is created with mode 0600, in a folder with mode 0700, and a secret in a file that others can read
is refused. No error contains a value of the file. :mod:`graveler.location.environment` has the precedence of options, variables
and profiles.

The defaults of lakes that no profile names are in another file beside it, ``config-defaults.json``, which only commands write: a
version before it refuses profiles with keys that it does not know.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from graveler.errors import UNREADABLE, ForbiddenError, InvalidError, NotFoundError, UnavailableError

CONFIG: Final = "GRAVELER_CONFIG"
"""The configuration file, if not the one in the user's configuration folder."""

PROFILE: Final = "GRAVELER_PROFILE"
"""The name of the profile to use."""

DEFAULT: Final = "default"
"""The profile that is used if none is named."""

USER_KEY: Final = "user"
"""The key of the author's name, in a profile or above all of them."""

SECRET_KEY: Final = "secret_key"
"""The key whose value is shown nowhere."""

_PROFILES: Final = "profiles"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_OTHERS: Final = 0o077
_POSITION: Final = re.compile(r"at line (\d+)")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The settings of a profile; "" for one that is not set. ``endpoint`` is the URL of a server, ``lake`` a folder (absolute) or
    ``dynamodb://TABLE``, whose repositories are below ``objects``. ``key_id`` and ``secret_key`` are for that server; ``login``
    may be ``aws`` instead. ``repository`` and ``branch`` are the default ones of commands. ``user`` is the author of commits."""

    name: str
    endpoint: str = ""
    lake: str = ""
    objects: str = ""
    key_id: str = ""
    secret_key: str = field(default="", repr=False)
    login: str = ""
    repository: str = ""
    branch: str = ""
    user: str = ""

    @property
    def location(self) -> tuple[str, str] | None:
        """The key that says where the lake is, and its value; None if the profile does not say."""
        return next(((key, value) for key in ("endpoint", "lake") if (value := getattr(self, key))), None)


KEYS: Final = tuple(key.name for key in fields(Profile) if key.name != "name")
"""The keys of a profile."""


def configuration_file() -> Path | None:
    """Return where the configuration file is, or would be; None for a user without a home folder."""
    if named := os.environ.get(CONFIG):
        return Path(named).expanduser().absolute()
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        # XDG ignores a path that is not absolute.
        home = Path(folder) if folder.startswith("/") else Path.home() / ".config"
    except RuntimeError:  # a user without an entry, as in containers
        return None
    return home / "graveler" / "config.toml"


def chosen_name(name: str | None = None) -> str:
    """Return the name of the profile in use: ``name``, else GRAVELER_PROFILE, else ``default``."""
    return name or os.environ.get(PROFILE) or DEFAULT


def find_profile(name: str | None = None) -> Profile | None:
    """Return the profile in use: ``name``, else the one that GRAVELER_PROFILE names, else ``default``; None without the latter.

    :class:`NotFoundError` for a named profile that is not there, :class:`InvalidError` for a file that is not such a
    configuration, with file, line and what to do; :class:`ForbiddenError` for a secret that others can read. Cost: the file is
    read.
    """
    return _find(name)[1]


def find_user(name: str | None = None) -> str:
    """Return the author's name in the file: that of the profile that :func:`find_profile` finds, else that above all profiles;
    "" if neither is set. Errors and cost as :func:`find_profile`."""
    read, profile = _find(name)
    default_user = "" if read is None else read.document.get(USER_KEY, "")
    return (profile.user if profile is not None else "") or str(default_user)


def _find(name: str | None) -> "tuple[_File | None, Profile | None]":
    chosen = chosen_name(name)
    is_named = bool(name or os.environ.get(PROFILE))
    path = configuration_file()
    read = _read(path, must=is_named or bool(os.environ.get(CONFIG))) if path is not None else None
    document = {} if read is None else _profiles(read)
    if chosen not in document:
        if not is_named:
            return read, None
        raise _no_profile(chosen, by=None if name else PROFILE, path=path, names=sorted(document))
    assert read is not None
    return read, _profile(chosen, document[chosen], read)


class Setting(NamedTuple):
    """A setting of the file. ``profile`` is "" for one above all profiles."""

    profile: str
    key: str
    value: str


def settings() -> list[Setting]:
    """Return all settings of the file: those above the profiles, then those of each profile, in the file's order. Errors as
    :func:`find_profile`."""
    path = configuration_file()
    file = _read(path, must=False) if path is not None else None
    if file is None:
        return []
    profiles = _profiles(file)
    everybody = [Setting("", key, value) for key, value in file.document.items() if key != _PROFILES]
    return everybody + [
        Setting(name, key, getattr(_profile(name, values, file), key))
        for name, values in profiles.items()
        for key in values
    ]


def profile_names() -> list[str]:
    """Return the names of all profiles, in order. Errors as :func:`find_profile`."""
    path = configuration_file()
    read = _read(path, must=False) if path is not None else None
    return [] if read is None else sorted(_profiles(read))


def change_profile(name: str, changes: Mapping[str, str | None], *, check: bool = False) -> Path:
    """Set these keys of a profile, and remove those that are None; return the file. The profile and the file are created if
    missing. Everything else in the file stays as it is, comments too.

    The new file takes the place of the old one at once, and is on the disk then. Concurrent changes wait for each other, so none
    is lost. :class:`InvalidError` for a file that is not TOML, a name that cannot be a profile's, or, with ``check``, a profile
    that would be refused when it is read; :class:`UnavailableError` if the disk or a missing library prevents it.
    """
    check_name(name)
    return _change(lambda read: _changed(read, name, changes, check=check))


def change_user(user: str | None) -> Path:
    """Set the author's name above all profiles, or with None remove it; return the file. Otherwise as :func:`change_profile`."""
    return _change(lambda read: _with_user(read, user))


def _change(change: "Callable[[_File], str]") -> Path:
    path = configuration_file()
    if path is None:
        raise _homeless()
    from graveler.storage.durable_files import unavailable  # fcntl: only where a file is written

    try:
        _expect_file(path)
        path = Path(os.path.realpath(path))  # a link to a file that the user keeps elsewhere stays one
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path):
            read = _read(path, must=True, trusted=True)
            _replace(path, change(read or _File(path, "", {})))
    except OSError as error:
        raise unavailable(error, f"writing the configuration file {str(path)!r}") from error
    return path


def check_name(name: str) -> str:
    """Return the name of a profile to write. :class:`InvalidError` for one with other characters."""
    if not _NAME.fullmatch(name):
        raise InvalidError(
            f"{name!r} is not a valid name of a profile: use up to 64 letters, digits and . _ - @, and begin with a letter or a "
            "digit"
        )
    return name


@dataclass(frozen=True)
class LakeDefault:
    """The default repository of a lake, and "" or its branch."""

    repository: str
    branch: str = ""


def find_lake_default(lake: str) -> LakeDefault | None:
    """Return the default that :func:`change_lake_default` stored for a lake; None without one. Cost: the file is read.
    :class:`InvalidError` for a damaged file, :class:`UnavailableError` for one that cannot be read."""
    path = _defaults_file()
    return None if path is None else _read_defaults(path).get(lake)


def change_lake_default(lake: str, default: LakeDefault | None) -> None:
    """Store the default repository of a lake, or with None forget it. ``lake`` is any text that tells it from others. The file is
    written as by :func:`change_profile`. Errors as of :func:`find_lake_default`; :class:`UnavailableError` if the disk prevents
    it."""
    path = _defaults_file()
    if path is None:
        raise _homeless()
    if default is None and find_lake_default(lake) is None:
        return
    from msgspec import json

    from graveler.storage.durable_files import unavailable  # fcntl: only where a file is written

    try:
        _expect_file(configuration_file())
        path = Path(os.path.realpath(path))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path):
            defaults = _read_defaults(path)
            defaults.pop(lake, None)
            if default is not None:
                defaults[lake] = default
            _replace(path, json.format(json.encode(defaults)).decode() + "\n")
    except OSError as error:
        raise unavailable(error, f"writing the file of default repositories {str(path)!r}") from error


def _expect_file(path: Path | None) -> None:
    """Raise :class:`InvalidError` if something else than a file is in the place of the configuration, such as ``/dev/null``, by
    which a user says that there is none: a file would take the place of the device."""
    if path is not None and path.exists() and not path.is_file():
        raise InvalidError(f"{str(path)!r} is no regular file, so nothing is written to it; name a file with {CONFIG}")


def _defaults_file() -> Path | None:
    path = configuration_file()
    return None if path is None else path.with_name(f"{path.stem}-defaults.json")


def _read_defaults(path: Path) -> dict[str, LakeDefault]:
    from msgspec import json  # not to show help

    try:
        return json.decode(path.read_bytes(), type=dict[str, LakeDefault])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UnavailableError(
            f"cannot read the file of default repositories {str(path)!r}: {error.strerror or error}"
        ) from None
    except UNREADABLE as error:
        raise InvalidError(
            f"{str(path)!r}, the file of default repositories, is damaged: {error}; remove it, and choose again with "
            "`graveler use`"
        ) from None


def _homeless() -> UnavailableError:
    return UnavailableError(f"this user has no home folder for a configuration file; set {CONFIG} or XDG_CONFIG_HOME")


@dataclass(frozen=True)
class _File:
    path: Path
    text: str = field(repr=False)
    document: dict[str, Any] = field(repr=False)

    def wrong(self, problem: str, *keys: str) -> InvalidError:
        """Return the error for what is wrong at the place of these keys."""
        line = _line_of(self.text, keys)
        return InvalidError(f"{str(self.path)!r}{f', line {line}' if line else ''}: {problem}")


def _read(path: Path, *, must: bool, trusted: bool = False) -> _File | None:
    """Return the file; None if there is none. One that cannot be read is none, either, unless it ``must`` be. ``trusted`` leaves
    out the check of who can read it."""
    import tomllib  # 5 ms, only for users who have such a file

    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if not must:
            return None
        raise UnavailableError(f"cannot read the configuration file {str(path)!r}: {error.strerror or error}") from None
    try:
        text = data.decode()
        document = tomllib.loads(text)
    except UnicodeDecodeError:
        raise InvalidError(f"{str(path)!r} is not UTF-8; write it again as UTF-8, or move it away") from None
    except tomllib.TOMLDecodeError as error:
        match = _POSITION.search(str(error))
        line = f", line {match[1]}" if match else ", at its end"
        # The message omits the parser's own one: it may quote a secret.
        raise InvalidError(
            f"{str(path)!r}{line}: this is not valid TOML; correct the line, or move the file away"
        ) from None
    read = _File(path, text, document)
    if not trusted and mode & _OTHERS and _holds_secret(document):
        raise ForbiddenError(
            f"{str(path)!r} holds a secret key, but other users of this machine can open it; run `chmod 600 {path}`"
        )
    return read


def _holds_secret(document: Mapping[str, Any]) -> bool:
    return any(
        key == SECRET_KEY or (isinstance(value, dict) and _holds_secret(value)) for key, value in document.items()
    )


def _profiles(read: _File) -> dict[str, Any]:
    for key in read.document:
        if key not in (_PROFILES, USER_KEY):
            raise read.wrong(f"{key!r} is not known; settings belong below [{_PROFILES}.NAME]", key)
    if not isinstance(read.document.get(USER_KEY, ""), str):
        raise read.wrong(f"{USER_KEY!r} is no text; write it in double quotes", USER_KEY)
    profiles = read.document.get(_PROFILES, {})
    if not isinstance(profiles, dict):
        raise read.wrong(f"{_PROFILES!r} is no table; write [{_PROFILES}.NAME] and settings below it", _PROFILES)
    return profiles


def _profile(name: str, settings: Any, read: _File) -> Profile:
    keys = (_PROFILES, name)
    if not isinstance(settings, dict):
        raise read.wrong(f"profile {name!r} is no table; write [{_PROFILES}.{name}] and settings below it", *keys)
    for key, value in settings.items():
        if key not in KEYS:
            raise read.wrong(f"profile {name!r} has the key {key!r}, which is not known; {_meant(key)}", *keys, key)
        if not isinstance(value, str):
            raise read.wrong(f"{key!r} of profile {name!r} is no text; write it in double quotes", *keys, key)
    profile = Profile(name=name, **settings)
    if profile.endpoint and profile.lake:
        raise read.wrong(f"profile {name!r} has both 'endpoint' and 'lake'; keep one of them", *keys, "lake")
    if profile.endpoint and not profile.endpoint.startswith(("http://", "https://")):
        raise read.wrong(f"'endpoint' of profile {name!r} is not a server's URL, https://HOST", *keys, "endpoint")
    if profile.lake and not profile.lake.startswith(("/", "~", "dynamodb://")):
        raise read.wrong(
            f"'lake' of profile {name!r} is neither an absolute folder nor dynamodb://TABLE; write the whole path "
            "(a server's URL belongs into 'endpoint')",
            *keys,
            "lake",
        )
    if profile.branch and not profile.repository:
        raise read.wrong(f"profile {name!r} has a branch, but no repository; add 'repository'", *keys, "branch")
    return profile


def _meant(key: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key.lower(), KEYS, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(KEYS)}"


def _no_profile(name: str, *, by: str | None, path: Path | None, names: list[str]) -> NotFoundError:
    said = f"{by} names the profile {name!r}, which" if by else f"the profile {name!r}"
    have = f"; there {'are' if len(names) > 1 else 'is'} {', '.join(map(repr, names))}" if names else ""
    return NotFoundError(
        f"{said} is not in {str(path)!r}{have}. `graveler login https://HOST --profile {name}` creates it, for a server"
        if path is not None
        else f"{said} cannot be found, because this user has no home folder; set {CONFIG}"
    )


def _line_of(text: str, keys: tuple[str, ...]) -> int | None:
    """Return the number of the line with these keys, or the nearest one above it that has the beginning of them."""
    table: tuple[str, ...] = ()
    best: tuple[int, int | None] = (0, None)
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = line_keys = _keys_of(stripped)
        else:
            key_text, equals, _ = stripped.partition("=")
            line_keys = (*table, *_keys_of(f"{key_text}= 0")) if equals else ()
        shared = min(len(line_keys), len(keys))
        if line_keys[:shared] == keys[:shared] and shared > best[0]:
            best = shared, number
    return best[1]


def _keys_of(line: str) -> tuple[str, ...]:
    """Return the keys of a line that is TOML by itself: of a table, or of one value; () for any other line."""
    import tomllib

    try:
        document: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    keys = []
    while isinstance(document, dict) and len(document) == 1:
        ((key, document),) = document.items()
        keys.append(key)
    return tuple(keys)


def _tomlkit() -> Any:
    try:
        import tomlkit  # 15 ms, only where the file is written
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"writing the configuration file needs the package {error.name!r}, which is not installed; pip install tomlkit"
        ) from None
    return tomlkit


def _with_user(read: _File, user: str | None) -> str:
    """Return the text of the file with this name of the author above all profiles."""
    import tomllib

    tomlkit = _tomlkit()
    document: Any = tomlkit.parse(read.text)
    if user is None:
        document.pop(USER_KEY, None)
        text = tomlkit.dumps(document)
    elif USER_KEY in document:
        document[USER_KEY] = user
        text = tomlkit.dumps(document)
    else:  # in front of all tables
        text = (
            f"{tomlkit.dumps({USER_KEY: user})}\n{read.text}" if read.text.strip() else tomlkit.dumps({USER_KEY: user})
        )
    expected = {key: value for key, value in {**read.document, USER_KEY: user}.items() if value is not None}
    if tomllib.loads(text) != expected:
        raise read.wrong(f"{USER_KEY!r} cannot be changed in the form that it has here; edit the file", USER_KEY)
    return str(text)


def _changed(read: _File, name: str, changes: Mapping[str, str | None], *, check: bool) -> str:
    """Return the text of the file with these changes."""
    import tomllib

    tomlkit = _tomlkit()
    _expect_tables(read, name)
    if name in read.document.get(_PROFILES, {}):
        document: Any = tomlkit.parse(read.text)
        for key, value in changes.items():
            if value is not None:
                document[_PROFILES][name][key] = value
            else:
                document[_PROFILES][name].pop(key, None)
        text = tomlkit.dumps(document)
    else:
        new = tomlkit.dumps({_PROFILES: {name: {key: value for key, value in changes.items() if value is not None}}})
        text = f"{read.text.rstrip()}\n\n{new}" if read.text.strip() else new
    expected: dict[str, Any] = {**read.document, _PROFILES: {**read.document.get(_PROFILES, {})}}
    settings = {**expected[_PROFILES].get(name, {}), **changes}
    expected[_PROFILES][name] = {key: value for key, value in settings.items() if value is not None}
    try:
        same = tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        same = False
    if not same:  # a form that the library cannot change without loss
        raise read.wrong(
            f"profile {name!r} cannot be changed in the form that {_PROFILES!r} has here; write each profile as "
            f"[{_PROFILES}.NAME] and settings below it",
            _PROFILES,
            name,
        )
    if check:
        _profile(name, expected[_PROFILES][name], _File(read.path, "", expected))
    return str(text)


def _expect_tables(read: _File, name: str) -> None:
    profiles = read.document.get(_PROFILES, {})
    if not isinstance(profiles, dict) or not isinstance(profiles.get(name, {}), dict):
        raise read.wrong(
            f"profile {name!r} is no table; write [{_PROFILES}.{name}] and settings below it", _PROFILES, name
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock on the file at ``path``, a file beside it; waits for another process that has it."""
    import fcntl

    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, text: str) -> None:
    """Put a file with this text in the place of the one at ``path``, durably."""
    from tempfile import mkstemp

    from graveler.storage.durable_files import sync_file, sync_folder

    descriptor, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            sync_file(file.fileno())
        os.replace(name, path)  # noqa: PTH105 - both names are on one file system
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
