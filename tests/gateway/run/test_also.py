"""Runs that read another bucket of S3 beside the lake."""

import os
from dataclasses import replace
from secrets import token_hex
from unittest.mock import patch

import boto3
import pytest

from graveler.storage.objects.s3 import S3Settings
from tests.gateway.run.support import Place, program
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.servers import REGION, s3proxy

DATA = os.urandom(3 << 20)


@pytest.mark.ci
def test_a_run_reads_another_bucket(place: Place) -> None:
    name = f"raw-{token_hex(6)}"
    with patch.dict(os.environ, CREDENTIALS):
        make_bucket(name, S3Settings(REGION, s3proxy()))
        source = boto3.client("s3", endpoint_url=s3proxy(), region_name=REGION)
        source.put_object(Bucket=name, Key="in/a", Body=DATA, Metadata={"job": "7"}, ContentType="text/csv")
        source.put_object(Bucket=name, Key="b", Body=b"")
    text = f"""
got = s3.get_object(Bucket="{name}", Key="in/a")
put("a", got["ContentType"] + got["Metadata"]["job"])
s3.download_file("{name}", "in/a", "/dev/null")
print([item["Key"] for item in s3.list_objects_v2(Bucket="{name}", Prefix="in/")["Contents"]])
part = s3.get_object(Bucket="{name}", Key="in/a", Range="bytes=10-19")
print(part["ContentRange"], len(part["Body"].read()), s3.head_object(Bucket="{name}", Key="in/a")["ContentLength"])
"""
    variables = {**CREDENTIALS, "AWS_SESSION_TOKEN": "", "AWS_ENDPOINT_URL_S3": s3proxy(), "AWS_REGION": REGION}
    end = replace(place, environment=variables).run("sales/main", "--also", f"s3://{name}/in", "--", *program(text))
    assert end.code == 0, end.err
    size = len(DATA)
    assert end.out.splitlines() == ["['in/a']", f"bytes 10-19/{size} 10 {size}"]
    assert place.read("a") == "text/csv7"
