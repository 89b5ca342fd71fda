"""The location of a lake, as plain values, and opening it there."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from graveler.errors import AlreadyExistsError, UnavailableError
from graveler.system.extras import not_installed

if TYPE_CHECKING:
    from graveler.lake.lake import Lake
    from graveler.storage.secrets.keyring import KeySource

_NAME_ONE: Final = (
    "name its file with sealing_key_file (or GRAVELER_SEALING_KEY_FILE), created for a new lake with "
    "(umask 077; openssl rand -base64 32 > FILE); or a key of AWS KMS with kms_key (or GRAVELER_KMS_KEY)"
)


@dataclass(frozen=True)
class FolderLake:
    """A lake in a folder."""

    folder: Path

    def __str__(self) -> str:
        return str(self.folder)


@dataclass(frozen=True, kw_only=True)
class AwsLake:
    """A lake on S3 and DynamoDB, or on compatible servers: repositories below ``objects`` (``s3://bucket/prefix``),
    the table ``tables`` (``dynamodb://table``). Copies of immutable files are kept in the folder ``cache``, which any number of
    processes share. If ``region`` or an endpoint is None, AWS's own configuration decides. The secrets in the table are
    sealed by the key in ``sealing_key_file``, or by one that the KMS key with the ARN ``kms_key`` has wrapped; without both, none
    can be sealed or opened."""

    objects: str
    tables: str
    cache: Path
    region: str | None = None
    s3_endpoint_url: str | None = None
    dynamodb_endpoint_url: str | None = None
    sealing_key_file: Path | None = None
    kms_key: str | None = None

    def __str__(self) -> str:
        return self.tables

    def sealing_key(self) -> "KeySource":
        """Return the source of the key that seals the secrets in the table."""
        if self.kms_key is not None:
            from graveler.storage.secrets.kms import KmsKey

            return KmsKey(self.kms_key, self.tables.removeprefix("dynamodb://"))
        if self.sealing_key_file is not None:
            from graveler.storage.secrets.key_file import KeyFile

            return KeyFile(self.sealing_key_file)
        from graveler.storage.secrets.keyring import NoKey

        return NoKey(_NAME_ONE)


LakeLocation: TypeAlias = FolderLake | AwsLake
"""The location of a lake that this process can open by itself."""


def create_at(location: LakeLocation, *, create_table: bool = False, shared: bool = False) -> "Lake":
    """Create an empty lake at this location. :class:`AlreadyExistsError` if it already holds one.

    On AWS a lake is its table and an existing bucket, which are both checked; with ``create_table`` the table is created if it
    does not exist. ``shared``: the group of a folder may use its lake, too. Cost on AWS: one table read, one object read.
    :class:`UnavailableError` if something cannot be reached.
    """
    if isinstance(location, FolderLake):
        from graveler.lake.opening.folder import Shared, create_folder_lake

        return create_folder_lake(location.folder, shared=Shared.GROUP if shared else Shared.NO)
    lake = open_at(location, create_table=create_table)
    from graveler.lake.opening.repositories import LAKE, MARKER
    from graveler.storage.objects.namespaces import open_namespace
    from graveler.storage.objects.port import ObjectMissingError
    from graveler.storage.objects.s3 import S3Settings

    if lake.tables.get(LAKE) is not None:
        raise AlreadyExistsError("lake", location.tables, "open it, or choose another table")
    with suppress(ObjectMissingError):  # of all possible errors, this one shows that the bucket works
        open_namespace(location.objects, s3=S3Settings(location.region, location.s3_endpoint_url)).get(MARKER)
    return lake


def open_at(
    location: LakeLocation,
    *,
    base_url: str | None = None,
    create_table: bool = False,
    memory: int | None = None,
    sources: Sequence[str] | None = None,
    url_secret: bytes | None = None,
) -> "Lake":
    """Open the lake at this location. ``base_url``, ``memory``, ``sources`` and ``url_secret`` as for
    :func:`~graveler.lake.opening.folder.open_folder_lake`; S3 has its own presigned URLs, and its credentials decide what
    may be read. ``create_table`` creates the table of a lake on AWS if it does not exist.

    Cost on AWS: none, unless ``create_table``. :class:`NotFoundError` and :class:`InvalidError` if there can be no lake there;
    :class:`UnavailableError` if the libraries for AWS are not installed.
    """
    if isinstance(location, FolderLake):
        from graveler.lake.opening.folder import open_folder_lake

        return open_folder_lake(
            location.folder, base_url=base_url, memory=memory, sources=sources, url_secret=url_secret
        )
    try:
        from graveler.lake.opening.aws import open_lake  # botocore: 100 ms
        from graveler.storage.objects.s3 import S3Settings
    except ModuleNotFoundError as error:
        raise UnavailableError(not_installed("a lake on AWS", error.name, "aws")) from None
    from graveler.runtime.local import processors

    return open_lake(
        location.objects,
        location.tables,
        s3=S3Settings(location.region, location.s3_endpoint_url),
        region=location.region,
        dynamodb_endpoint_url=location.dynamodb_endpoint_url,
        create_table=create_table,
        cache=location.cache,
        workers=processors(),
        memory=memory,
        sealing_key=location.sealing_key(),
    )
