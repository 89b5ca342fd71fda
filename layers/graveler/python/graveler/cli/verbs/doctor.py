"""The verb that examines an installation and its lake: doctor."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from graveler.cli.locations import Named, ServedLake, find_default, find_lake
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import output
from graveler.cli.values import human_size
from graveler.errors import ForbiddenError, GravelerError, NotFoundError, PreconditionError
from graveler.lake.opening.location import AwsLake, FolderLake, open_at
from graveler.location.configuration import CONFIG, KEYS, chosen_name, configuration_file, find_profile

_EXTRAS: Final = {
    "server": ("granian", "greenlet", "multipart"),
    "remote": ("urllib3", "yaml"),
    "aws": ("boto3", "pynamodb", "aws_lambda_powertools"),
    "listing": ("pyarrow",),
    "spark": ("pyspark", "pyarrow", "pandas"),
}
"""The modules that each extra installs."""
_LITTLE: Final = 1 << 30
"""Bytes of free space below which a disk is nearly full."""
_SKEW: Final = 60.0
"""Seconds by which a clock may differ from a server's without a warning."""
_NETWORK: Final = frozenset(("9p", "afs", "cifs", "fuse.sshfs", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"))
"""File systems on which SQLite's log of several machines is not safe."""


class Level(Enum):
    """The severity of a finding."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """The outcome of a check; ``text`` says what to do, if anything is to be done."""

    check: str
    level: Level
    text: str


Check = Iterator[tuple[Level, str]]


def doctor(lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Examine the installation and the lake, and say what to do.

    Checks versions, extras, the configuration file and its profile, where the lake is and who says so, the disk, credentials,
    whether a server or AWS can be reached, the clock, and what the access key may do. Nothing is changed, apart from a temporary
    file. The exit code is 5 if there is a problem.

    \b
    Examples:
      graveler doctor
      graveler doctor --lake /data/lake
      graveler --endpoint https://lake.example.org doctor

    JSON: one document {findings}, a list of {check, level, text}; level is ok,
      note, warning or problem.
    """
    findings = list(_examine(lake))
    screen = output(as_json=as_json)
    styles = {Level.OK: "green", Level.NOTE: "dim", Level.WARNING: "yellow", Level.PROBLEM: "red"}
    screen.answer(
        {"findings": [{"check": f.check, "level": f.level.value, "text": f.text} for f in findings]},
        *(
            f"{screen.paint(f'{level.value:<7}', styles[level])}  {check}: {screen.safe(text)}"
            for check, level, text in findings
        ),
    )
    problems = sum(finding.level is Level.PROBLEM for finding in findings)
    if problems:
        raise PreconditionError(f"{problems} problem{'s' if problems != 1 else ''} found; see above")


def _examine(named: Named | None) -> Iterator[Finding]:
    yield from _run("version", _versions)
    yield from _run("extras", _extras)
    yield from _run("configuration", lambda: _configuration(named))
    try:
        location = find_lake(named)
    except GravelerError as error:
        check = "credentials" if isinstance(error, ForbiddenError) else "lake"
        yield Finding(check, Level.WARNING if isinstance(error, NotFoundError) else Level.PROBLEM, str(error))
        return
    if isinstance(location, FolderLake):
        yield Finding("lake", Level.OK, f"the folder {str(location.folder)!r}")
        yield from _run("disk", lambda: _disk(location.folder))
        yield from _run("repositories", lambda: _own(location))
    elif isinstance(location, AwsLake):
        yield Finding("lake", Level.OK, f"the table {location.tables!r}, with objects below {location.objects!r}")
        yield from _run("table", lambda: _own(location))
        yield from _run("bucket", lambda: _bucket(location))
        yield from _run("cache", lambda: _disk(location.cache))
    else:
        yield Finding("lake", Level.OK, f"behind the server {location.url!r}")
        yield from _run("server", lambda: _server(location))
        yield from _run("credentials", lambda: _key(location))


def _run(name: str, check: Callable[[], Check]) -> Iterator[Finding]:
    """Yield what a check finds; an error of ours, or of the system, is a finding, too."""
    try:
        for level, text in check():
            yield Finding(name, level, text)
    except GravelerError as error:
        yield Finding(name, Level.PROBLEM, str(error))
    except OSError as error:
        where = f"{error.filename!r}: " if error.filename else ""
        yield Finding(name, Level.PROBLEM, f"{where}{error.strerror or error}")


def _versions() -> Check:
    import platform

    from graveler import __version__

    yield (
        Level.OK,
        f"graveler {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )
    yield Level.OK, f"installed at {Path(__file__).parents[2]}"


def _extras() -> Check:
    from importlib.util import find_spec

    for extra, modules in _EXTRAS.items():
        missing = [module for module in modules if find_spec(module) is None]
        if missing:
            yield Level.NOTE, f"{extra} is not installed; if you need it: pip install 'graveler[{extra}]'"
        else:
            yield Level.OK, f"{extra} is installed"


def _configuration(named: Named | None) -> Check:
    name = None if named is None else named.profile
    path = configuration_file()
    if path is None:
        yield Level.NOTE, f"this user has no home folder for a configuration file; {CONFIG} can name one"
        return
    profile = find_profile(name)
    if not path.exists():
        yield Level.OK, f"there is no file {str(path)!r}, and none is needed"
    elif profile is None:
        yield Level.OK, f"{str(path)!r} has no profile {chosen_name(name)!r}"
    else:
        keys = [key for key in KEYS if getattr(profile, key)]
        yield Level.OK, f"profile {profile.name!r} of {str(path)!r} has {', '.join(keys) or 'no settings'}"
    try:
        place = find_default(named)
    except NotFoundError:  # no lake, as another check says
        place = None
    if place is not None:
        where = f"{place.repository}/{place.branch}" if place.branch else place.repository
        yield Level.OK, f"the default repository is lakefs://{where}, by {place.by}"


def _disk(folder: Path) -> Check:
    from shutil import disk_usage
    from tempfile import TemporaryFile

    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    free = disk_usage(folder).free
    level = Level.OK if free > _LITTLE else Level.WARNING
    yield level, f"{human_size(free)} are free" + ("" if free > _LITTLE else "; make room before commits fail")
    kind = _file_system(folder)
    if kind in _NETWORK:
        yield (
            Level.WARNING,
            f"{str(folder)!r} is on a network file system ({kind}): use the lake from one machine at a time, or through a server",
        )
    if not os.access(folder, os.W_OK):
        yield Level.WARNING, f"{str(folder)!r} cannot be written to by this user; the lake can only be read"
        return
    from graveler.storage.durable_files import sync_file

    with TemporaryFile(dir=folder) as file:
        file.write(b"graveler doctor")
        file.flush()
        began = time.monotonic()
        sync_file(file.fileno())
    yield Level.OK, f"it can be written to, and a sync took {1000 * (time.monotonic() - began):.1f} ms"


def _file_system(folder: Path) -> str:
    """Return the type of the file system of a folder, where the system tells; else ""."""
    if sys.platform != "linux":
        return ""
    path, file_system, longest = str(folder.resolve()), "", -1
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
        _, mount, kind, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        if len(mount) > longest and (path == mount or path.startswith(mount.rstrip("/") + "/")):
            file_system, longest = kind, len(mount)
    return file_system


def _own(location: FolderLake | AwsLake) -> Check:
    with open_at(location) as lake:
        page = lake.repositories("", "", 1000)
    many = f"{len(page.results):,}{' or more' if page.next_after else ''}"
    yield Level.OK, f"{many} can be read"


def _bucket(location: AwsLake) -> Check:
    from graveler.lake.opening.repositories import MARKER
    from graveler.storage.objects.namespaces import open_namespace
    from graveler.storage.objects.port import ObjectMissingError
    from graveler.storage.objects.s3 import S3Settings

    objects = open_namespace(location.objects, s3=S3Settings(location.region, location.s3_endpoint_url))
    with suppress(ObjectMissingError):
        objects.head(MARKER)
    yield Level.OK, "it can be reached and read with these credentials"


def _server(location: ServedLake) -> Check:
    from email.utils import parsedate_to_datetime

    from graveler.remote.opening import connect

    with closing(connect(location)) as connection:
        began = time.time()
        answer = connection.call("GET", ("healthcheck",), seconds=10)
        took = time.time() - began
    yield Level.OK, f"it answers, in {1000 * took:.0f} ms"
    date = answer.headers.get("date")
    if date is None:
        return
    skew = began - parsedate_to_datetime(date).timestamp()
    if abs(skew) > _SKEW:
        which = "ahead of" if skew > 0 else "behind"
        yield Level.WARNING, f"this machine's clock is {abs(skew):,.0f} s {which} the server's; synchronize it (NTP)"
    else:
        yield Level.OK, "its clock and this machine's agree"


def _key(location: ServedLake) -> Check:
    from graveler.remote.opening import connect, open_served

    with open_served(location) as lake:
        name = lake.user
        page = lake.repositories("", "", 1000)
    yield Level.OK, f"they are accepted, as those of {name!r}; {len(page.results):,} repositories can be seen"
    with closing(connect(location)) as connection:
        try:
            connection.call("GET", ("auth", "users"), {"amount": 1})
        except ForbiddenError:
            yield Level.NOTE, "they are not an administrator's: no repository can be created, and no key"
        else:
            yield Level.OK, "they are an administrator's"
