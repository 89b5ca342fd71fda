"""Deleted objects of a bucket that keeps versions, and restoring them.

S3 deletes nothing there: it puts a *delete marker* on top. Removing the marker makes the version below it the object again, with
the time that it had (https://docs.aws.amazon.com/AmazonS3/latest/userguide/ManagingDelMarkers.html).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from graveler.errors import InvalidError, UnavailableError
from graveler.storage.aws_requests import send_or_explain
from graveler.system.retries import Retries

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


class DeletedObject(Struct, frozen=True):
    """An object whose newest version is a delete marker. ``deleted`` in Unix seconds; ``size`` in bytes is that of the version
    below it, None if none is left."""

    key: str
    marker: str
    deleted: float
    size: int | None


class S3Versions:
    """Deleted objects of one namespace. ``retries`` are for each request; a listing requests ``list_page`` entries at once."""

    def __init__(self, bucket: str, base: str, client: "S3Client", *, retries: Retries, list_page: int) -> None:
        self._bucket, self._base, self._s3 = bucket, base, client
        self._retries, self._list_page = retries, list_page

    def check(self) -> None:
        """Check that the bucket keeps versions; :class:`InvalidError` if not. One request."""
        subject = f"s3://{self._bucket}: versions"
        response = send_or_explain(lambda: self._s3.get_bucket_versioning(Bucket=self._bucket), subject, self._retries)
        if response.get("Status") not in ("Enabled", "Suspended"):
            raise InvalidError(f"bucket {self._bucket!r} keeps no versions, so what was deleted there is gone")

    def deleted(self, prefix: str = "", since: float = 0.0) -> Iterator[DeletedObject]:
        """Yield objects deleted since then (Unix seconds), in the order of the keys. One request for each 1,000 existing
        versions, deleted or not."""
        marker: DeletedObject | None = None
        for entry, is_marker in self._versions(prefix):
            key = entry["Key"].removeprefix(self._base)
            if marker is not None and marker.key != key:
                yield marker
                marker = None
            if is_marker and entry["IsLatest"] and entry["LastModified"].timestamp() >= since:
                marker = DeletedObject(key, entry["VersionId"], entry["LastModified"].timestamp(), None)
            elif not is_marker and marker is not None and marker.size is None:
                marker = DeletedObject(key, marker.marker, marker.deleted, entry["Size"])
        if marker is not None:
            yield marker

    def bring_back(self, objects: Sequence[DeletedObject]) -> dict[str, str]:
        """Remove the markers of at most 1,000 objects; return the reason for each failure by key. May be repeated. One
        request."""
        markers: Any = [{"Key": self._base + deleted.key, "VersionId": deleted.marker} for deleted in objects]
        subject = f"s3://{self._bucket}/{self._base}: undelete"
        response = send_or_explain(
            lambda: self._s3.delete_objects(Bucket=self._bucket, Delete={"Objects": markers, "Quiet": True}),
            subject,
            self._retries,
        )
        return {
            failure["Key"].removeprefix(self._base): f"{failure.get('Code', '')} {failure.get('Message', '')}".strip()
            for failure in response.get("Errors", ())
        }

    def _versions(self, prefix: str) -> Iterator[tuple[Any, bool]]:
        """Yield all versions and markers, those of one key together, the newest first; and whether each is a marker."""
        key, version = "", ""
        subject = f"s3://{self._bucket}/{self._base}{prefix}: list versions"
        while True:
            response = self._page(prefix, key, version, subject)
            both = [(entry, False) for entry in response.get("Versions", ())]
            both += [(entry, True) for entry in response.get("DeleteMarkers", ())]
            both.sort(key=lambda version_entry: (version_entry[0]["Key"].encode(), not version_entry[0]["IsLatest"]))
            yield from both
            if not response["IsTruncated"]:
                return
            following = response.get("NextKeyMarker", ""), response.get("NextVersionIdMarker", "")
            if following in (("", ""), (key, version)):
                raise UnavailableError(
                    f"{subject}: the store says that there is more, but not how to continue; try again"
                )
            key, version = following

    def _page(self, prefix: str, key: str, version: str, subject: str) -> Any:
        begin: Any = {name: value for name, value in (("KeyMarker", key), ("VersionIdMarker", version)) if value}
        return send_or_explain(
            lambda: self._s3.list_object_versions(
                Bucket=self._bucket, Prefix=self._base + prefix, MaxKeys=self._list_page, **begin
            ),
            subject,
            self._retries,
        )
