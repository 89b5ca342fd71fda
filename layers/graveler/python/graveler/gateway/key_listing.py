"""Listings of keys: ListObjects and ListObjectsV2."""

from msgspec import Struct

from graveler.errors import RefNotFoundError
from graveler.gateway.control import Mount
from graveler.gateway.exchange import Exchange
from graveler.gateway.mounts import Location, open_repository
from graveler.gateway.protocol.bucket_listing import ListedObject, Listing, listing_document, listing_of
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.service import Service
from graveler.model import CommonPrefix
from graveler.requests.base import Permission
from graveler.tree.record import MakeBrief


class KeyPage(Struct, frozen=True):
    """A page of a listing: objects and common prefixes, each in the order of their keys. ``next_after`` is the last of them all,
    if others follow; else empty."""

    contents: list[ListedObject]
    prefixes: list[str]
    next_after: str = ""


async def list_objects(service: Service, exchange: Exchange) -> None:
    """List a bucket's keys, in pages of up to 1,000. Cost: a table read, and as
    :meth:`graveler.lake.reading.object_reader.ObjectReader.list_objects`; of refs as the listings of branches and tags."""
    listing = listing_of(exchange.parameters, 2 if exchange.operation == "ListObjectsV2" else 1)
    mount = service.mounts.mount(exchange.bucket)
    if mount.ref:
        page = await _mounted(service, exchange, mount, listing)
    else:
        location = await service.located(exchange, mount, listing.prefix)
        exchange.require(Permission.READ, mount, location)
        page = await service.calls.long(lambda: _at_ref(service, mount, location, listing))
    exchange.respond_document(listing_document(exchange.bucket, listing, page.contents, page.prefixes, page.next_after))


async def _mounted(service: Service, exchange: Exchange, mount: Mount, listing: Listing) -> KeyPage:
    """Return a page of a bucket that shows one ref, all of whose keys begin with the mount's prefix."""
    location = Location(mount.repository, mount.ref, listing.prefix.removeprefix(mount.prefix), mount.prefix)
    exchange.require(Permission.READ, mount, location)
    if not listing.prefix.startswith(mount.prefix):
        if not mount.prefix.startswith(listing.prefix):
            return KeyPage([], [])
        delimiter = mount.prefix.find(listing.delimiter, len(listing.prefix)) if listing.delimiter else -1
        if delimiter >= 0:  # all keys lie below one common prefix
            common = mount.prefix[: delimiter + len(listing.delimiter)]
            return KeyPage([], [common] if listing.after < common and listing.max_keys else [])
        location = Location(mount.repository, mount.ref, "", mount.prefix)
    return await service.calls.long(lambda: _objects(service, mount, location, listing))


def _at_ref(service: Service, mount: Mount, location: Location, listing: Listing) -> KeyPage:
    """Return a page of a bucket whose keys begin with refs: of one ref, or of the refs that the prefix begins."""
    if not location.ref:
        return _refs(service, mount, listing)
    try:
        return _objects(service, mount, location, listing)
    except RefNotFoundError:
        if listing.delimiter != "/":
            raise
        page = _refs(service, mount, listing)  # a/ is no ref, but where the tag a/b is
        if not page.prefixes:
            raise
        return page


def _objects(service: Service, mount: Mount, location: Location, listing: Listing) -> KeyPage:
    """Return a page of objects at a location's ref."""
    repository, above = open_repository(service.lake, mount), location.above
    if not listing.max_keys:
        return KeyPage([], [])
    after = listing.after
    if after.startswith(above):
        after = after.removeprefix(above)
    elif after > above:
        return KeyPage([], [])  # all keys are before it
    else:
        after = ""
    page = repository.list_brief(
        _maker(above),
        location.ref,
        prefix=location.path,
        after=after,
        delimiter=listing.delimiter,
        amount=listing.max_keys,
    )
    contents: list[ListedObject] = []
    prefixes: list[str] = []
    for item in page.results:
        if isinstance(item, CommonPrefix):
            prefixes.append(above + item.path)
        else:
            contents.append(item)
    return KeyPage(contents, prefixes, "" if page.next_after is None else above + page.next_after)


def _maker(above: str) -> MakeBrief[ListedObject]:
    """Return what makes an object of a listing from the fields of its record."""
    if not above:
        return ListedObject

    def make(path: str, size: int, checksum: str, mtime: int) -> ListedObject:
        return ListedObject(above + path, size, checksum, mtime)

    return make


def _refs(service: Service, mount: Mount, listing: Listing) -> KeyPage:
    """Return a page of a repository's branches and tags, as common prefixes."""
    if listing.delimiter != "/":
        raise S3Error(
            "InvalidArgument",
            f"bucket {mount.bucket!r} shows the refs of a repository: list it with the delimiter '/', or a prefix like 'main/'",
        )
    repository = open_repository(service.lake, mount)
    names: set[str] = set()
    # A tag a/b shows as the folder a/, or below a/ as b/, so a page may need more refs than it shows.
    for refs in (repository.branches, repository.tags):
        after, count = listing.after.rstrip("/"), 0
        while count <= listing.max_keys:
            page = refs(listing.prefix, after, 1000)
            below = (ref.name.removeprefix(listing.prefix) for ref in page.results)
            folders = {f"{listing.prefix}{rest.partition('/')[0]}/" for rest in below}
            names |= folders
            count += len(folders)
            if page.next_after is None:
                break
            after = page.next_after
    following = sorted(name for name in names if name > listing.after)
    shown = following[: listing.max_keys]
    return KeyPage([], shown, shown[-1] if shown and len(following) > len(shown) else "")
