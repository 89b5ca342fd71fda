"""Which addresses may be imported: those below a prefix, in the list's own spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.access.refusals import SourceNotAllowedError
from graveler.access.sources import ImportSources
from graveler.errors import InvalidError
from graveler.storage.objects.plain_addresses import is_plain

RAW = ImportSources(["s3://bucket/raw", "file:///data/in/"])
COMPONENTS = st.sampled_from(
    [
        "raw",
        "a",
        "..",
        ".",
        "",
        "%2e%2e",
        "%252e.",
        "..%2f",
        "RAW",
        "raw%2F..",
        "dt=2020%2F01",
        "\\..\\",
        "a b",
        "é",
        "%",
    ]
)


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/raw/",
        "s3://bucket/raw/x.csv",
        "s3://bucket/raw/dt=2020%2F01/x y.csv",
        "s3://bucket/raw//x",
        "s3://bucket/raw/..x/...",
        "file:///data/in/é",
    ],
)
def test_what_lies_below_a_prefix_is_allowed(address: str) -> None:
    RAW.require(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "s3://bucket/raw",
        "s3://bucket/rawer/x",
        "s3://bucket/RAW/x",
        "S3://bucket/raw/x",
        "s3://BUCKET/raw/x",
        "s3://bucket2/raw/x",
        "s3://evil@bucket/raw/x",
        "s3:/bucket/raw/x",
        " s3://bucket/raw/x",
        "s3://bucket/%72aw/x",
        "s3://bucket/./raw/x",
        "s3://bucket//raw/x",
        "s3://bucket/raw/../x",
        "s3://bucket/raw/.",
        "s3://bucket/raw/%2e%2e/x",
        "s3://bucket/raw/%2E./x",
        "s3://bucket/raw/x%2f..%2f..%2fy",
        "s3://bucket/raw/%252e%252e/x",
        "s3://bucket/raw/%2525252525252e./x",
        "s3://bucket/raw/..\\x",
        "s3://bucket/raw/x\0",
        "s3://bucket/raw/x%00",
        "s3://bucket/raw/x\n",
        "file://data/in/x",
        "/data/in/x",
    ],
)
def test_what_is_not_spelled_so_is_refused(address: str) -> None:
    with pytest.raises(SourceNotAllowedError):
        RAW.require(address)


@given(st.lists(COMPONENTS, max_size=5))
def test_nothing_allowed_leaves_its_prefix_however_often_it_is_decoded(components: list[str]) -> None:
    from posixpath import normpath
    from urllib.parse import unquote

    address = "s3://bucket/" + "/".join(components)
    if not RAW.allows(address):
        return
    path = address.removeprefix("s3://bucket")
    for _ in range(6):
        assert (normpath(path.replace("\\", "/")) + "/").startswith("/raw/")
        path = unquote(path)


@given(st.lists(COMPONENTS, max_size=5))
def test_a_repository_only_narrows(components: list[str]) -> None:
    address = "s3://bucket/" + "/".join(components)
    narrow = ["s3://bucket/raw/a/", "s3://other/"]
    assert RAW.narrowed(narrow).allows(address) == (RAW.allows(address) and ImportSources(narrow).allows(address))


def test_everything_and_nothing() -> None:
    everything, nothing = ImportSources(["file:///", "s3://"]), ImportSources([])
    assert everything.allows("file:///etc/hosts")
    assert everything.allows("s3://bucket/x")
    assert not everything.allows("file:///data/../etc/hosts")
    assert not nothing.allows("file:///etc/hosts")
    assert not everything.narrowed([]).allows("file:///etc/hosts")
    assert not ImportSources(["file:///"]).allows("s3://bucket/x")


@pytest.mark.parametrize("prefix", ["", "bucket/raw", "S3://bucket", "s3://bucket/../x", "s3://bucket/%2e%2e/"])
def test_a_prefix_that_is_no_plain_address_is_refused(prefix: str) -> None:
    assert not is_plain(prefix)
    with pytest.raises(InvalidError):
        ImportSources([prefix])
