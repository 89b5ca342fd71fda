"""Random histories of small objects, for tests that compare what Spark reads with the library."""

from collections.abc import Iterable
from random import Random

from graveler.lake.repository import OpenRepository
from graveler.model import CommitID, ObjectEntry
from graveler.tree.record import base32

FOLDERS = ("", "a/", "a/b/", "a-b/", "b/", "é/", "\U0001f600/")


def entry_of(random: Random, path: str, namespace: str) -> ObjectEntry:
    """An object: mostly of the usual kinds, sometimes of any other."""
    name = f"{base32(random.getrandbits(100), 20)}/{base32(random.getrandbits(100), 20)}"
    address = random.choice(
        [
            f"s3://elsewhere/{name}é",
            f"s3://elsewhere/{path}",
            f"{namespace}/x/{path}",
            f"{namespace}/data/{name}/part-0",
        ]
    )
    digest = f"{random.getrandbits(128):032x}"
    checksum = random.choice([digest, digest, digest, f"{digest}-3", digest.upper(), "", "ab"])
    mtime = random.choice([random.randrange(1 << 17, 1 << 31), random.randrange(1 << 31, 1 << 32), 0, -5, 1 << 40])
    content_type = random.choice([*["application/octet-stream"] * 5, "text/plain", ""])
    metadata = random.choice([{}, {}, {}, {"k": "v", "é": ""}])
    return ObjectEntry(path, address, random.randrange(1 << 40), checksum, mtime, content_type, metadata)


def paths_of(random: Random, count: int) -> list[str]:
    """Distinct paths, in no order."""
    names = {f"{random.choice(FOLDERS)}{random.choice('xyz')}{random.randrange(10 * count)}" for _ in range(count)}
    return sorted(names, key=lambda _: random.random())


def grow(repository: OpenRepository, random: Random, *, commits: int, changes: int) -> list[CommitID]:
    """Commit that often, with so many changes each: new objects, other ones under old paths, deletes. The commits' IDs."""
    made = []
    for _ in range(commits):
        known = [entry.path for entry in repository.objects("main@")]
        gone = random.sample(known, min(len(known), changes // 4))
        again = random.sample(known, min(len(known), changes // 4))
        stage(repository, (entry_of(random, path, "s3://elsewhere") for path in {*again, *paths_of(random, changes)}))
        repository.delete("main", gone)
        made.append(repository.commit("main", "random changes").id)
    return made


def stage(repository: OpenRepository, entries: Iterable[ObjectEntry]) -> None:
    """Link objects of which nobody reads a byte."""
    repository.link_many("main", entries)
