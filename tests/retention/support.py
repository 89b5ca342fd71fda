"""Builders for tests of garbage collection: a small lake whose objects have bytes, and its needed files, found by brute force."""

from graveler.lake.clock import GRACE, SystemClock
from graveler.lake.deadline import SKEW
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode, Summary
from tests.lake.support import World

AGE = GRACE + SKEW + 10
"""Seconds after which everything is old."""


class OffClock(SystemClock):
    """A machine whose clock is wrong by some seconds; or the time of some seconds from now."""

    def __init__(self, off: float) -> None:
        self._off = off

    def now(self) -> float:
        return super().now() + self._off


class SkippingClock(OffClock):
    """As :class:`OffClock`; who waits by it finds at once that the time has passed."""

    def __init__(self, off: float) -> None:
        super().__init__(off)
        self._skipped = 0.0

    def now(self) -> float:
        return super().now() + self._skipped

    def monotonic(self) -> float:
        return super().monotonic() + self._skipped

    def sleep(self, seconds: float) -> None:
        self._skipped += seconds


def collect(world: World, mode: Mode = Mode.DELETE) -> Summary:
    """Collect as a fresh process would."""
    return Garbage(world.repository(), Options(mode, threads=1)).run()


def write(repository: OpenRepository, branch: str, **objects: str) -> CommitID:
    """Write objects, and commit them."""
    for path, text in objects.items():
        repository.upload(branch, path, text.encode())
    return repository.commit(branch, f"write {' '.join(objects)}").id


def contents(repository: OpenRepository, ref: str) -> dict[str, str]:
    """All objects of a ref, read."""
    return {entry.path: repository.read(ref, entry.path).decode(errors="replace") for entry in repository.objects(ref)}


def keys(world: World, prefix: str) -> set[str]:
    """What is stored below a prefix."""
    return {stored.key for stored in world.objects().list(prefix)}


def check_live(world: World) -> dict[str, dict[str, str]]:
    """Everything that refs and uncommitted changes name can be read; fsck finds nothing wrong."""
    fresh = world.repository()
    branches = [branch.name for branch in fresh.branches(amount=1000, show_hidden=True).results]
    found = {ref: contents(fresh, ref) for ref in [*branches, *(f"{branch}@" for branch in branches)]}
    found.update({tag.name: contents(fresh, tag.name) for tag in fresh.tags(amount=1000).results})
    report = world.lake().fsck(fresh.repository.name)
    assert not report.findings, report.findings
    return found


def needed_objects(world: World) -> set[str]:
    """As :func:`objects_of`, seen by a fresh client."""
    return objects_of(world.repository())


def objects_of(repository: OpenRepository) -> set[str]:
    """Keys of the objects that some reachable commit, or an uncommitted change, names."""
    inside = f"{repository.repository.namespace}/"
    found: set[str] = set()
    branches = [branch.name for branch in repository.branches(amount=1000, show_hidden=True).results]
    tags = [tag.name for tag in repository.tags(amount=1000).results]
    commits = {commit.id for ref in [*branches, *tags] for commit in repository.log(ref, amount=10_000).results}
    for ref in [*branches, *commits]:
        found.update(entry.address.removeprefix(inside) for entry in repository.objects(ref))
    return found
