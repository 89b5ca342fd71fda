"""Locations outside the lake to which jobs write plain objects: a bucket's prefix, a folder."""

from msgspec import Struct

from graveler.errors import ForbiddenError
from graveler.spark.handles import Reached
from graveler.storage.file_modes import PLAIN
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.namespaces import open_namespace
from graveler.storage.objects.port import Objects


class Destination(Struct, frozen=True):
    """The keys that begin with ``prefix`` (empty, or ending with a slash) in a store. Objects of the lake are named by their
    paths without the first ``strip`` characters."""

    objects: Objects
    prefix: str
    strip: int = 0

    def key(self, path: str) -> str:
        """Return the key of the object at a path of the lake."""
        return self.prefix + path[self.strip :]

    def tidy(self) -> None:
        """Remove the files that a folder's adapter keeps next to the objects, as far as no task of any job needs them."""
        if isinstance(self.objects, FolderObjects):
            self.objects.tidy()


def destination_at(repository: Reached, url: str, strip: int = 0) -> Destination:
    """Return the destination at ``s3://bucket/prefix`` or ``file:///folder``. No request. :class:`graveler.errors.InvalidError`
    for other URLs, :class:`graveler.errors.ForbiddenError` for the repository's own namespace."""
    url = url.rstrip("/")
    if f"{url}/".startswith(f"{repository.repository.namespace}/"):
        raise ForbiddenError(f"{url!r} is in the repository's own namespace; choose another one")
    objects, key = repository.store_at(f"{url}/x")
    if isinstance(objects, FolderObjects):  # covers the whole machine; ours keeps temporary files nearby
        return Destination(open_namespace(url, modes=PLAIN), "", strip)
    return Destination(objects, key.removesuffix("x"), strip)
