"""Opening the lake that is served, wherever it is."""

from graveler.lake.folder import open_folder_lake
from graveler.lake.lake import Lake
from graveler.server.settings import AwsLake, FolderLake
from graveler.tree.files import processors


def open_served_lake(
    place: FolderLake | AwsLake,
    *,
    base_url: str | None = None,
    create_table: bool = False,
    memory: int | None = None,
) -> Lake:
    """The lake at this place. ``base_url`` and ``memory`` as for :func:`~graveler.lake.folder.open_folder_lake`; the presigned
    URLs of S3 are its own. ``create_table`` makes the table of a lake on AWS if it is not there.

    Cost on AWS: none, unless ``create_table``. :class:`NotFoundError` and :class:`InvalidError` if there can be no lake there.
    """
    if isinstance(place, FolderLake):
        return open_folder_lake(place.folder, base_url=base_url, memory=memory)
    from graveler.lake.aws import open_lake  # botocore: 100 ms
    from graveler.storage.s3_objects import S3Settings

    return open_lake(
        place.objects,
        place.tables,
        s3=S3Settings(place.region, place.s3_endpoint_url),
        region=place.region,
        dynamodb_endpoint_url=place.dynamodb_endpoint_url,
        create_table=create_table,
        cache=place.cache,
        workers=processors(),
        memory=memory,
    )
