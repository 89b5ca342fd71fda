"""Buckets and what they show: a bucket is a repository, and its keys are paths of one ref, or begin with the ref's name."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from graveler.errors import NotFoundError
from graveler.gateway.control import Mount
from graveler.gateway.lakes import AnyLake, Opened, created
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.history.names import check_repository
from graveler.lake.lake import Lake

_TRUSTED: Final = 5.0
"""Seconds for which the names of refs with a slash are remembered, as for access keys."""
_REMEMBERED: Final = 1_000


class Location(Struct, frozen=True):
    """The meaning of a bucket's key: a ``path`` at a ref. ``ref`` is empty for a key that names no ref, or none completely."""

    repository: str
    ref: str
    path: str
    above: str
    """What stands in front of a path of the ref in each of the bucket's keys."""


class Mounts(Protocol):
    """The buckets of a gateway."""

    def mount(self, bucket: str) -> Mount:
        """Return what a bucket shows. No request. :class:`S3Error` for a bucket that this gateway does not serve."""

    def buckets(self) -> Sequence[tuple[str, int]]:
        """Return the names of all buckets, with their times of creation (Unix seconds). One table read for each thousand."""


class JobMounts:
    """The few buckets of a job, by name, of repositories of ``lake``. ``sources`` are buckets of S3 that it reads besides."""

    def __init__(self, mounts: Sequence[Mount], lake: AnyLake, sources: Sequence[str] = ()) -> None:
        self._mounts: Mapping[str, Mount] = {mount.bucket: mount for mount in mounts}
        self._lake = lake
        self._sources = sources

    def mount(self, bucket: str) -> Mount:
        """See :meth:`Mounts.mount`."""
        mount = self._mounts.get(bucket)
        if mount is not None:
            return mount
        if bucket in self._sources:
            raise S3Error(
                "AccessDenied",
                f"bucket {bucket!r} is not the lake's: read its objects (`graveler run --also`), and write them with PutObject",
            )
        served = ", ".join(map(repr, [*self._mounts, *self._sources]))
        raise S3Error(
            "NoSuchBucket",
            f"bucket {bucket!r} is not served to this program; it may use {served}. The run can give the repository further "
            f"names as a bucket (`--bucket`), and read another bucket of S3 (`--also s3://{bucket}`)",
            fields={"BucketName": bucket},
        )

    def buckets(self) -> Sequence[tuple[str, int]]:
        """See :meth:`Mounts.buckets`."""
        return [(mount.bucket, created(self._lake.repository(mount.repository))) for mount in self._mounts.values()]


class LakeMounts:
    """A bucket for each repository of a lake, in which a key is the name of a ref, a slash, and a path."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def mount(self, bucket: str) -> Mount:
        """See :meth:`Mounts.mount`."""
        return Mount(bucket=bucket, repository=bucket, ref="")

    def buckets(self) -> Sequence[tuple[str, int]]:
        """See :meth:`Mounts.buckets`."""
        created: list[tuple[str, int]] = []
        after = ""
        while True:
            page = self._lake.repositories(after=after, amount=1000)
            created += [(repository.name, repository.created) for repository in page.results]
            if page.next_after is None:
                return created
            after = page.next_after


class Locations:
    """Finds what keys name. Names of tags may have slashes: of several refs that a key begins with, the longest counts."""

    def __init__(self, lake: AnyLake, now: Callable[[], float] = time.monotonic) -> None:
        self._lake = lake
        self._now = now
        self._slashed: dict[tuple[str, str], tuple[tuple[str, ...], float]] = {}

    def locate(self, mount: Mount, key: str) -> Location:
        """Return what a key names. For a mount without a ref two table reads of tags, unless this process knows the tags that
        begin with the key's first segment. :class:`S3Error` for a key outside of the mount's prefix."""
        if mount.ref:
            if not key.startswith(mount.prefix):
                raise S3Error(
                    "AccessDenied",
                    f"key {key!r} of bucket {mount.bucket!r} does not begin with {mount.prefix!r}, below which that bucket shows "
                    f"{mount.repository}/{mount.ref}",
                )
            return Location(mount.repository, mount.ref, key.removeprefix(mount.prefix), mount.prefix)
        name, slash, path = key.partition("/")
        if not slash:
            return Location(mount.repository, "", key, "")
        for tag in self._slashed_tags(mount, name):
            if key.startswith(f"{tag}/"):
                return Location(mount.repository, tag, key[len(tag) + 1 :], f"{tag}/")
        return Location(mount.repository, name, path, f"{name}/")

    def _slashed_tags(self, mount: Mount, segment: str) -> tuple[str, ...]:
        """Return the tags whose names begin with a segment and a slash, the longest first."""
        if not segment:
            return ()
        remembered = self._slashed.get((mount.repository, segment))
        if remembered is not None and self._now() < remembered[1]:
            return remembered[0]
        repository = open_repository(self._lake, mount)
        names: list[str] = []
        after = ""
        while True:
            page = repository.tags(f"{segment}/", after, 1000)
            names += [tag.name for tag in page.results]
            if page.next_after is None:
                break
            after = page.next_after
        if len(self._slashed) >= _REMEMBERED:
            self._slashed.clear()
        tags = tuple(sorted(names, key=len, reverse=True))
        self._slashed[mount.repository, segment] = tags, self._now() + _TRUSTED
        return tags


def open_repository(lake: AnyLake, mount: Mount) -> Opened:
    """Return the repository of a mount. One table read; none of a lake behind a server, whose first request finds out whether it
    exists. :class:`S3Error` if there is none."""
    try:
        check_repository(mount.repository)
        return lake.repository(mount.repository)
    except NotFoundError:
        raise no_such_bucket(mount.bucket) from None


def no_such_bucket(bucket: str) -> S3Error:
    """Return the error for a bucket without a repository."""
    return S3Error(
        "NoSuchBucket",
        f"the lake has no repository {bucket[:80]!r}; a bucket of this gateway is a repository",
        fields={"BucketName": bucket},
    )
