"""obstore, which is Rust's object_store: conditions, parts, lists and copies below a place, BUCKET or BUCKET/PREFIX."""

import sys
from datetime import timedelta
from urllib.request import urlopen

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store


def main(place: str) -> None:
    """Write and read objects."""
    store = S3Store.from_url(f"s3://{place}/obstore")
    large = bytes(range(256)) * 50_000
    obstore.put(store, "large", large, chunk_size=5 << 20, attributes={"Content-Type": "text/x-large"})
    assert bytes(obstore.get(store, "large").bytes()) == large
    assert bytes(obstore.get_range(store, "large", start=5, length=100)) == large[5:105]
    assert [bytes(part) for part in obstore.get_ranges(store, "large", starts=[0, 9_000_000], lengths=[3, 4])] == [
        large[:3],
        large[9_000_000:9_000_004],
    ]
    first = obstore.put(store, "log/0", b"first", mode="create")
    try:
        obstore.put(store, "log/0", b"second", mode="create")
    except AlreadyExistsError:
        pass
    else:
        raise AssertionError("created twice")
    obstore.put(store, "log/0", b"second", mode={"e_tag": first["e_tag"]})
    try:
        obstore.put(store, "log/0", b"third", mode={"e_tag": first["e_tag"]})
    except PreconditionError:
        pass
    else:
        raise AssertionError("replaced what had changed")
    obstore.copy(store, "large", "copy/large")
    obstore.rename(store, "copy/large", "renamed é%2F+")
    listed = obstore.list_with_delimiter(store)
    assert [meta["path"] for meta in listed["objects"]] == ["large", "renamed é%2F+"]
    assert list(listed["common_prefixes"]) == ["log"]
    with urlopen(obstore.sign(store, "GET", "log/0", timedelta(minutes=1))) as response:
        assert response.read() == b"second"
    for number in range(30):
        obstore.put(store, f"many/{number:02}", b"x")
    assert [meta["path"] for page in obstore.list(store, "many", chunk_size=7) for meta in page] == [
        f"many/{number:02}" for number in range(30)
    ]
    obstore.delete(store, [f"many/{number:02}" for number in range(30)])


if __name__ == "__main__":
    main(sys.argv[1])
