"""boto3: the transfer manager, pages, copies, deletions and presigned URLs below a place, BUCKET or BUCKET/PREFIX."""

import io
import sys
from typing import Any
from urllib.request import urlopen

import boto3


def main(place: str) -> None:
    """Write and read objects."""
    bucket, _, prefix = place.partition("/")
    folder = f"{prefix}/boto3".lstrip("/")
    s3 = boto3.client("s3")
    large = bytes(range(256)) * 36_000
    s3.upload_fileobj(io.BytesIO(large), bucket, f"{folder}/large", ExtraArgs={"Metadata": {"origin": "boto3"}})
    read = io.BytesIO()
    s3.download_fileobj(bucket, f"{folder}/large", read)
    assert read.getvalue() == large
    assert s3.head_object(Bucket=bucket, Key=f"{folder}/large")["Metadata"] == {"origin": "boto3"}
    source: Any = {"Bucket": bucket, "Key": f"{folder}/large"}
    s3.copy(source, bucket, f"{folder}/copied")
    for number in range(5):
        s3.put_object(Bucket=bucket, Key=f"{folder}/small {number}", Body=b"%d" % number, ChecksumAlgorithm="SHA256")
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{folder}/small", PaginationConfig={"PageSize": 2}
    )
    small = [item["Key"] for page in pages for item in page["Contents"]]
    assert small == [f"{folder}/small {number}" for number in range(5)]
    with urlopen(s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": small[3]}, 60)) as response:
        assert response.read() == b"3"
    boto3.resource("s3").Bucket(bucket).objects.filter(Prefix=f"{folder}/small").delete()


if __name__ == "__main__":
    main(sys.argv[1])
