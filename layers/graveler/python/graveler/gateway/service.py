"""The service behind a gateway's handlers: the lake, its buckets, the stores of their bytes, and whether writes are accepted."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from graveler.errors import RefNotFoundError
from graveler.gateway.calls import LakeCalls
from graveler.gateway.control import Mount
from graveler.gateway.exchange import Exchange, Traffic
from graveler.gateway.lakes import AnyLake, Opened
from graveler.gateway.mounts import Location, Locations, Mounts
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.store.stores import ByteStores
from graveler.history.names import is_branch
from graveler.lake.objects.upload_records import UploadRecord
from graveler.requests.base import Permission, Request
from graveler.server.threads import Threads

if TYPE_CHECKING:
    from graveler.gateway.joined_run import JoinedRun
    from graveler.gateway.store.source_buckets import SourceBuckets  # botocore: 100 ms

R = TypeVar("R")


class Service:
    """The service behind a gateway's requests. ``disk`` are threads that read, write and hash bytes, ``region`` is the one that
    buckets say they are in."""

    def __init__(
        self,
        lake: AnyLake,
        mounts: Mounts,
        calls: LakeCalls,
        stores: ByteStores,
        disk: Threads,
        region: str,
    ) -> None:
        self.lake = lake
        self.mounts = mounts
        self.calls = calls
        self.stores = stores
        self.disk = disk
        self.region = region
        self.traffic = Traffic()
        self.joined: JoinedRun | None = None
        """The run of another host, if this gateway has joined one."""
        self.sources: SourceBuckets | None = None
        """Buckets of S3 that are only read, if there are any."""
        self.uploads: dict[tuple[Location, str], tuple[str, UploadRecord]] = {}
        """Uploads in parts that were read, and the identities of their repositories; by location and ID."""
        self._locations = Locations(lake)
        self._writes = 0
        """Writes in progress."""
        self._changes = 0
        """Of these, the ones that change the lake at this moment."""
        self._closed = False
        self._ended = False
        self._settled = asyncio.Event()

    async def locate(self, exchange: Exchange, permission: Permission) -> Location:
        """Return what the request's key names, if the caller has the permission there. :class:`S3Error`."""
        mount = self.mounts.mount(exchange.bucket)
        location = await self.located(exchange, mount, exchange.key)
        exchange.require(permission, mount, location)
        if permission is Permission.WRITE:
            expect_branch(mount, location)
        return location

    async def located(self, exchange: Exchange, mount: Mount, key: str) -> Location:
        """Return what a key of a bucket names, to a caller that may read the repository: nobody else learns whether there is one.
        Cost and errors as of :meth:`Locations.locate`; :class:`ForbiddenError`."""
        if mount.ref:
            return self._locations.locate(mount, key)
        exchange.identity.require(Permission.READ, mount.repository, "")
        return await self.calls.short(lambda: self._locations.locate(mount, key))

    async def call(self, location: Location, call: Callable[[Opened], R]) -> R:
        """Return what ``call`` returns for a location's repository, whose branch it changes or is going to. It is called again if
        another repository has the name by then. :class:`S3Error` for a tag; errors of the call."""

        def recent() -> R:
            return self.lake.with_recent_repository(location.repository, call)

        try:
            return await self.calls.short(recent)
        except RefNotFoundError:
            if not await self.calls.long(lambda: _is_tag(self.lake.repository(location.repository), location.ref)):
                raise
        raise S3Error("AccessDenied", f"{location.ref!r} is a tag, which never changes; write to a branch")

    async def run(self, location: Location, request: Request[R]) -> R:
        """Run a request as :meth:`change` does."""
        return await self.change(location, lambda opened: opened.run(request))

    async def change(self, location: Location, change: Callable[[Opened], R]) -> R:
        """Return what ``change`` returns for a location's repository, whose branch it changes, in a block of :meth:`writing`.
        :class:`S3Error` for one that comes too late after the gateway was closed: it would be acknowledged, and not published."""
        if self._ended:
            raise _closed()
        self._changes += 1
        try:
            return await self.call(location, change if self.joined is None else self.joined.confirmed(change))
        finally:
            self._changes -= 1
            self._settle()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run a block that writes. :class:`S3Error` once the gateway is closed for writes."""
        if self._closed:
            raise _closed()
        self._writes += 1
        try:
            yield
        finally:
            self._writes -= 1
            self._settle()

    def _settle(self) -> None:
        if self._closed and not (self._changes if self._ended else self._writes):
            self._settled.set()

    async def close_for_writes(self, seconds: float) -> int:
        """Refuse new writes, and wait for those in progress, but no longer than so many seconds: those that have not come to
        their change of the lake by then are refused. Return their number."""
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._writes:
                    await self._settled.wait()
        self._ended, refused = True, self._writes - self._changes
        while self._changes:
            self._settled.clear()
            await self._settled.wait()
        return refused


def expect_branch(mount: Mount, location: Location) -> None:
    """Check that a location may be on a branch, the only ref that can be written. No request. :class:`S3Error`."""
    if not is_branch(location.ref):
        named = f"{location.ref[:80]!r} is no branch" if location.ref else "the key names no branch"
        raise S3Error(
            "AccessDenied",
            f"{named}: tags, commits and expressions are only read; write to BRANCH/PATH in bucket {mount.bucket!r}",
        )


def _is_tag(repository: Opened, name: str) -> bool:
    try:
        repository.tag(name)
    except RefNotFoundError:
        return False
    return True


def _closed() -> S3Error:
    return S3Error(
        "AccessDenied",
        "the program that this gateway was started for has ended, and what it wrote is being published; nothing more can be "
        "written",
    )
