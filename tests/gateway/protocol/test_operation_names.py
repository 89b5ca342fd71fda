"""Operations by method and sub-resource: those of botocore's model of S3, by the same names."""

from typing import Final

import pytest
from botocore.model import OperationModel
from botocore.session import get_session

from graveler.gateway.protocol.head import Head
from graveler.gateway.protocol.operation_names import OPERATIONS, operation_of
from graveler.gateway.protocol.s3_errors import S3Error

_OTHER_NAMES: Final = {
    "GetBucketLifecycle": "GetBucketLifecycleConfiguration",
    "GetBucketNotification": "GetBucketNotificationConfiguration",
    "PutBucketLifecycle": "PutBucketLifecycleConfiguration",
    "PutBucketNotification": "PutBucketNotificationConfiguration",
    "ListDirectoryBuckets": "ListBuckets",
}
"""Operations with the same request as another one."""

_NOT_OF_A_BUCKET: Final = {"WriteGetObjectResponse"}
_NOT_OF_THE_MODEL: Final = {"PostObject"}


def _operation(method: str, bucket: str, key: str, query: str = "", **headers: str) -> str:
    by_name = {name.replace("_", "-"): value for name, value in headers.items()}
    head = Head(method, "/", query, by_name)
    return operation_of(method, bucket, key, head.parameters, head.headers)


def _operation_of_model(operation: OperationModel) -> str:
    """Return the operation of the request that botocore's model describes, with all that it requires."""
    uri = operation.http["requestUri"]
    path, _, query = uri.partition("?")
    pairs, headers = [pair for pair in query.split("&") if pair], {}
    shape = operation.input_shape
    members = {} if shape is None else {name: shape.members[name] for name in shape.required_members}
    for member in members.values():
        where = member.serialization
        if where.get("location") == "querystring":
            pairs.append(f"{where['name']}=1")
        elif where.get("location") == "header":
            headers[where["name"].lower()] = "1"
    head = Head(operation.http["method"], path, "&".join([*pairs, f"x-id={operation.name}"]), headers)
    bucket, key = "bucket" if "{Bucket}" in path else "", "key" if "{Key+}" in path else ""
    return operation_of(head.method, bucket, key, head.parameters, head.headers)


def test_every_operation_of_botocore_has_its_name() -> None:
    model = get_session().get_service_model("s3")
    names = set()
    for name in set(model.operation_names) - _NOT_OF_A_BUCKET:
        operation = _operation_of_model(model.operation_model(name))
        assert operation == _OTHER_NAMES.get(name, name)
        names.add(operation)
    assert names == OPERATIONS - _NOT_OF_THE_MODEL


def test_copies_have_a_source() -> None:
    source = {"x_amz_copy_source": "bucket/key"}
    assert _operation("PUT", "b", "k", **source) == "CopyObject"
    assert _operation("PUT", "b", "k", "partNumber=1&uploadId=x", **source) == "UploadPartCopy"
    assert _operation("PUT", "b", "k", "tagging", **source) == "PutObjectTagging"


def test_listings() -> None:
    assert _operation("GET", "b", "", "list-type=2&prefix=acl") == "ListObjectsV2"
    assert _operation("GET", "b", "", "list-type=1") == "ListObjects"
    assert _operation("GET", "b", "", "inventory&id=a") == "GetBucketInventoryConfiguration"
    assert _operation("GET", "b", "", "inventory&id=") == "ListBucketInventoryConfigurations"


def test_an_unknown_parameter_of_a_read_is_ignored() -> None:
    assert _operation("GET", "b", "k", "newest-feature") == "GetObject"
    assert _operation("GET", "b", "", "newest-feature") == "ListObjects"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
@pytest.mark.parametrize("key", ["", "k"])
def test_an_unknown_sub_resource_of_a_write_is_refused(method: str, key: str) -> None:
    """It must not fall on the object."""
    with pytest.raises(S3Error) as refusal:
        _operation(method, "b", key, "newest-feature")
    assert (refusal.value.code, refusal.value.status) == ("NotImplemented", 501)


def test_parameters_with_values_do_not_change_a_write() -> None:
    assert _operation("PUT", "b", "k", "x-id=PutObject&X-Amz-Expires=1") == "PutObject"
    assert _operation("DELETE", "b", "k", "x-id=DeleteObject&versionId=null") == "DeleteObject"


def test_a_part_needs_its_upload() -> None:
    with pytest.raises(S3Error, match="partNumber without uploadId"):
        _operation("PUT", "b", "k", "partNumber=1")


@pytest.mark.parametrize(
    ("method", "bucket", "key", "level", "allow"),
    [
        ("PUT", "", "", "SERVICE", "GET"),
        ("PATCH", "b", "", "BUCKET", "GET, HEAD, PUT, POST, DELETE"),
        ("TRACE", "b", "k", "OBJECT", "GET, HEAD, PUT, POST, DELETE"),
        ("POST", "b", "k", "OBJECT", "GET, HEAD, PUT, POST, DELETE"),
    ],
)
def test_methods_that_a_resource_has_not(method: str, bucket: str, key: str, level: str, allow: str) -> None:
    with pytest.raises(S3Error) as refusal:
        _operation(method, bucket, key)
    assert (refusal.value.code, refusal.value.status) == ("MethodNotAllowed", 405)
    assert refusal.value.fields == {"Method": method, "ResourceType": level}
    assert refusal.value.headers == {"allow": allow}


def test_a_preflight_request_is_forbidden() -> None:
    with pytest.raises(S3Error, match="CORS is not enabled") as refusal:
        _operation("OPTIONS", "b", "k")
    assert refusal.value.status == 403
