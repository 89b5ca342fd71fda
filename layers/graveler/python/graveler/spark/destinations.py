"""Places outside of the lake that jobs write plain objects to: a bucket's prefix, a folder."""

from shutil import rmtree

from msgspec import Struct

from graveler.errors import ForbiddenError
from graveler.spark.handles import Reached
from graveler.storage.folder_objects import HIDDEN, FolderObjects
from graveler.storage.modes import PLAIN
from graveler.storage.namespaces import open_namespace
from graveler.storage.objects import Objects


class Destination(Struct, frozen=True):
    """Keys that begin with ``prefix`` (empty, or ending with a slash) in a store. Objects of the lake are named by what follows
    the first ``strip`` characters of their paths."""

    objects: Objects
    prefix: str
    strip: int = 0

    def key(self, path: str) -> str:
        """The key of the object at a path of the lake."""
        return self.prefix + path[self.strip :]

    def tidy(self) -> None:
        """Remove what a folder's adapter keeps beside the objects, when nobody puts any more."""
        if isinstance(self.objects, FolderObjects):
            rmtree(self.objects.file_of("x").parent / HIDDEN, ignore_errors=True)


def destination_at(repository: Reached, url: str, strip: int = 0) -> Destination:
    """The place at ``s3://bucket/prefix`` or ``file:///folder``. No request. :class:`graveler.errors.InvalidError` for other
    URLs, :class:`graveler.errors.ForbiddenError` for the lake's own place."""
    url = url.rstrip("/")
    if f"{url}/".startswith(f"{repository.repository.namespace}/"):
        raise ForbiddenError(f"{url!r} lies in the repository's own place; name another one")
    objects, key = repository.store_at(f"{url}/x")
    if isinstance(objects, FolderObjects):  # of all files of this machine; ours has its temporary files beside its own
        return Destination(open_namespace(url, modes=PLAIN), "", strip)
    return Destination(objects, key.removesuffix("x"), strip)
