"""Records in bytes: decoding, equality and refusals."""

from hashlib import md5
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from graveler.errors import CorruptError, InvalidError
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry
from graveler.tree.record import (
    MAX_KEY_BYTES,
    RecordCodec,
    base32,
    data_id,
    encode_key,
    identity,
    record_data_id,
    record_ids,
)
from graveler.tree.sstable import write_table
from tests.support.campaigns import examples
from tests.support.trees import ALONE, CODEC
from tests.tree.support import LAW, identity_of

BASE32 = "0123456789abcdefghijklmnopqrstuv"

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
data_name = st.builds(
    "mem://test/data/{}/{}".format, st.text(BASE32, min_size=20, max_size=20), st.text(BASE32, min_size=20, max_size=20)
)
address = st.one_of(
    data_name,
    st.sampled_from(
        [
            "mem://test/data/" + "0" * 20 + "/" + "0" * 20,
            "mem://test/data/" + "v" * 20 + "/" + "v" * 20,
            "mem://test/data/" + "w" * 20 + "/" + "v" * 20,
            "mem://test/data/" + "V" * 20 + "/" + "v" * 20,
            "mem://test/data/" + "é" * 20 + "/" + "v" * 20,
            "mem://test/data/" + "²" * 20 + "/" + "v" * 20,
            "mem://test/data/" + "_" * 20 + "/" + "v" * 20,
            "mem://test/data/" + "v" * 19 + "/" + "v" * 21,
            "mem://test/data/" + "v" * 41,
            "mem://test/data/" + "v" * 20 + "/" + "v" * 20 + "/",
            "mem://test/data/",
            "mem://test/data",
            "mem://test/",
            "mem://test",
            "mem://test2/data/" + "v" * 20 + "/" + "v" * 20,
            "mem://tes",
            "MEM://test/data/x",
            "",
            "s3://other/key",
            "s3://other/" + "x" * 3000,
        ]
    ),
    text.map("mem://test/".__add__),
    text.map("mem://test2/".__add__),
    text.map("s3://bucket/".__add__),
)
checksum = st.one_of(
    st.binary(max_size=20).map(bytes.hex),
    st.binary(max_size=20).map(lambda b: b.hex().upper()),
    st.binary(min_size=16, max_size=16).map(lambda b: f"{b.hex()}-12"),
    st.sampled_from(["", " ", "0", "00", "0 0", "00 00", "aB", "ab ", "ab\n", "é", "x" * 127, "0" * 254]),
    text,
)
entry = st.builds(
    ObjectEntry,
    path=text.filter(bool),
    address=address,
    size=st.integers(0, 2**63 - 1) | st.integers(0, 300),
    checksum=checksum,
    mtime=st.integers(-(2**40), 2**62) | st.integers(0, 2) | st.integers(1 << 16, (1 << 32) - 1),
    content_type=st.sampled_from([DEFAULT_CONTENT_TYPE, "", "text/plain", "Ünïcode"]) | text,
    metadata=st.dictionaries(text, text, max_size=4),
)


def what_it_is(e: ObjectEntry) -> tuple[object, ...]:
    """The law: equal in these means equal identity, and the other way round."""
    outside = None if e.address.startswith("mem://test/") else e.address
    return e.size, e.checksum, e.content_type, dict(e.metadata), outside


@settings(LAW, max_examples=examples(1000))
@given(entry)
def test_an_entry_comes_back_as_it_was(e: ObjectEntry) -> None:
    packed = CODEC.encode(e)
    assert CODEC.decode(e.path.encode(), packed) == e
    brief = CODEC.decode_brief(lambda *fields: fields, [(e.path.encode(), packed)])
    assert brief == [(e.path, e.size, e.checksum, e.mtime)]
    assert identity(packed) == identity_of(packed)


@settings(LAW)
@given(
    st.sampled_from(["file:///a/", "file:///a/b/", "file:///a/b/c/", "file:///", "s3://bucket/x/"]),
    st.sampled_from(["file:///a/b", "mem://o", "s3://bucket", "file:///a/b/c/é"]),
    st.text("aé-/", min_size=1, max_size=5),
    st.integers(0, 2**63 - 1),
    st.binary(max_size=20) | st.integers(),
    st.integers(-(2**62), 2**62),
)
def test_plain_objects_below_an_address_have_the_records_of_others(
    above: str, namespace: str, name: str, size: int, checksum: bytes | int, mtime: int
) -> None:
    codec = RecordCodec(namespace)
    text = f"mtime:{checksum}" if isinstance(checksum, int) else ""
    said, raw = (text, text.encode()) if isinstance(checksum, int) else (checksum.hex(), checksum)
    quick = codec.plain(above, text=bool(text))(name.encode(), size, raw, mtime)
    assert quick == codec.encode(ObjectEntry(name, above + name, size, said, mtime))


@settings(LAW, max_examples=examples(1000))
@given(
    entry, entry, st.sets(st.sampled_from(["size", "checksum", "content_type", "metadata", "address", "mtime", "path"]))
)
def test_identities_are_equal_exactly_when_the_objects_are(
    one: ObjectEntry, other: ObjectEntry, fields: set[str]
) -> None:
    """``mixed`` differs from ``one`` in the fields drawn, which is more telling than two strangers."""
    mixed = structs.replace(one, **{name: getattr(other, name) for name in fields})
    for x, y in ((one, other), (one, mixed), (other, mixed)):
        equal = identity(CODEC.encode(x)) == identity(CODEC.encode(y))
        assert equal == (what_it_is(x) == what_it_is(y))


@settings(LAW, max_examples=examples(300))
@given(entry, st.integers(0, 2**40), text, data_name)
def test_times_and_addresses_inside_never_enter_the_identity(e: ObjectEntry, mtime: int, path: str, name: str) -> None:
    inside = structs.replace(e, address=name)
    moved = structs.replace(inside, address=f"mem://test/{path}", mtime=mtime, path="other")
    assert identity(CODEC.encode(inside)) == identity(CODEC.encode(moved))


@settings(LAW, max_examples=examples(300))
@given(entry, st.permutations(["a", "b", "c", "é"]))
def test_the_order_of_metadata_does_not_matter(e: ObjectEntry, order: list[str]) -> None:
    one = structs.replace(e, metadata={key: key * 2 for key in order})
    other = structs.replace(e, metadata={key: key * 2 for key in sorted(order)})
    assert CODEC.encode(one) == CODEC.encode(other)


def test_metadata_cannot_be_mistaken_for_one_another_or_for_a_content_type() -> None:
    variants = [
        ("a", {}),
        (DEFAULT_CONTENT_TYPE, {"a": ""}),
        (DEFAULT_CONTENT_TYPE, {"": "a"}),
        (DEFAULT_CONTENT_TYPE, {"a": "b", "c": "d"}),
        (DEFAULT_CONTENT_TYPE, {"a": "bc", "": "d"}),
        (DEFAULT_CONTENT_TYPE, {"ab": "c", "d": ""}),
        (DEFAULT_CONTENT_TYPE, {}),
        ("", {}),
    ]
    packed = [CODEC.encode(ObjectEntry("p", "mem://test/x", 1, "", 0, ct, md)) for ct, md in variants]
    assert len({identity(p) for p in packed}) == len(variants)


@pytest.mark.parametrize("namespace", ["mem://test", "mem://test/"])
def test_a_namespace_with_and_without_a_slash_is_the_same(namespace: str) -> None:
    e = ObjectEntry("p", "mem://test/data/" + "a" * 20 + "/" + "b" * 20, 1, "", 0)
    assert RecordCodec(namespace).encode(e) == CODEC.encode(e)
    assert RecordCodec(namespace).decode(b"p", CODEC.encode(e)) == e


def test_a_namespace_inside_a_bucket_is_not_the_bucket() -> None:
    codec = RecordCodec("s3://bucket/lake")
    for inside, where in ((True, "s3://bucket/lake/x"), (False, "s3://bucket/lake2/x"), (False, "s3://bucket/x")):
        plain, other = (codec.encode(ObjectEntry("p", a, 1, "", 0)) for a in ("s3://bucket/lake/y", where))
        assert (identity(plain) == identity(other)) == inside


def test_whoever_collects_garbage_knows_objects_of_our_naming() -> None:
    codec, first, second = RecordCodec("mem://lake"), "0" * 19 + "v", "1" * 20
    names = [f"data/{first}/{second}{rest}" for rest in ("", "/a", "/b", "/day=1/a")]
    known = [data_id(name) for name in names]
    assert known[0] == int(first + second, 32).to_bytes(25, "big")
    assert len({*known}) == 4
    for name, each in zip(names, known, strict=True):
        assert each is not None
        assert int.from_bytes(each, "big") >> 100 == int(first, 32), "in the order of the first parts"
        assert record_data_id(codec.encode(ObjectEntry("p", f"mem://lake/{name}", 1, "", 1))) == each
    unknown = ("", "/", f"/{first}", f"/{first}/{second}x", f"/{first}/{second}/", f"/{'w' * 20}/{second}/a")
    for other in ("x", *(f"data{rest}" for rest in unknown)):
        assert data_id(other) is None
        assert record_data_id(codec.encode(ObjectEntry("p", f"mem://lake/{other}", 1, "", 1))) is None


def test_record_ids_are_one_after_another() -> None:
    packed = [CODEC.encode(ObjectEntry("p", "mem://test/x", n, "", 0)) for n in range(3)]
    ids = record_ids([b"a", b"b", b"c"], packed)
    assert len(ids) == 96
    assert ids[32:64] == record_ids([b"b"], packed[1:2])
    with pytest.raises(ValueError, match="shorter"):
        record_ids([b"a", b"b"], packed[:1])


# -- refused


def test_keys_have_one_to_1024_bytes_of_utf_8() -> None:
    assert encode_key("é" * 512) == "é".encode() * 512
    assert encode_key("\x00") == b"\x00"
    for path in ("", "x" * (MAX_KEY_BYTES + 1), "é" * 512 + "x", "a\ud800b"):
        with pytest.raises(InvalidError):
            encode_key(path)


BASE = ObjectEntry("p", "mem://test/x", 1, "00", 0)


@pytest.mark.parametrize(
    "wrong",
    [
        structs.replace(BASE, size=-1),
        structs.replace(BASE, size=2**63),
        structs.replace(BASE, size=2**64),
        structs.replace(BASE, mtime=2**64),
        structs.replace(BASE, mtime=-(2**64)),
        structs.replace(BASE, checksum="0" * 256),
        structs.replace(BASE, checksum="x" * 128),
        structs.replace(BASE, checksum="\ud800"),
        structs.replace(BASE, address="s3://b/" + "x" * 70_000),
        structs.replace(BASE, address="s3://b/\ud800"),
        structs.replace(BASE, address="mem://test/\ud800"),
        structs.replace(BASE, content_type="\ud800"),
        structs.replace(BASE, metadata={"\ud800": "x"}),
        structs.replace(BASE, metadata={"x": "\ud800"}),
        structs.replace(BASE, metadata={"x": "y" * (2 << 20)}),
        structs.replace(BASE, content_type="y" * (2 << 20)),
        structs.replace(BASE, address="mem://test/" + "y" * (2 << 20)),
    ],
    ids=lambda e: str(e)[28:160],
)
def test_what_cannot_be_written_is_refused(wrong: ObjectEntry) -> None:
    with pytest.raises(InvalidError):
        CODEC.encode(wrong)


def read_or_corrupt(key: bytes, packed: bytes) -> None:
    try:
        decoded = CODEC.decode(key, packed)
    except CorruptError as error:
        message = str(error)
        assert repr(key) in message
    else:
        assert isinstance(decoded, ObjectEntry)
        hash((decoded.path, decoded.address, decoded.size, decoded.checksum, decoded.mtime, decoded.content_type))
        assert all(isinstance(text, str) for pair in decoded.metadata.items() for text in pair)


@settings(LAW, max_examples=examples(1000))
@given(st.binary(max_size=8), st.binary(max_size=120))
def test_random_bytes_are_corrupt_or_an_entry(key: bytes, packed: bytes) -> None:
    read_or_corrupt(key, packed)


@settings(LAW, max_examples=examples(1000))
@given(entry, st.data())
def test_damaged_records_are_corrupt_or_an_entry(e: ObjectEntry, data: st.DataObject) -> None:
    packed = bytearray(CODEC.encode(e))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    read_or_corrupt(e.path.encode(), bytes(packed))
    read_or_corrupt(e.path.encode(), bytes(packed[: data.draw(st.integers(0, len(packed)))]))


def test_nested_or_mistyped_values_are_corrupt() -> None:
    head = CODEC.encode(BASE)[:13]
    for rest in (
        b"\x91" * 100_000,
        b"\x94\x00\xa1x\xc0" + b"\x81\x90\xa1y",
        b"\x94\x00\xa1x\xc0" + b"\x81\x01\xa1y",
        b"\x94\x00\xa1x\xc0" + b"\x81\xa1x\x01",
        b"\x94\x00\xa1x\x05\xc0",
        b"\x94\xc0\xa1x\xc0\xc0",
        b"\x92\xc3\xa1x",
        b"\x92\x00\x07",
        b"\x92\x00\xc4\x03abc",
        b"\x92\x00\xc4\x19" + b"\xff" * 25 + b"\x00",
        b"\x90",
        b"\x91\x00",
        b"",
    ):
        with pytest.raises(CorruptError):
            CODEC.decode(b"k", head + rest)


# -- space


def test_a_realistic_record_takes_at_most_64_bytes_on_disk(seed: int) -> None:
    """Distinct checksums, sizes, times close together, 160 random bits in each name; paths as Spark writes them (one UUID a
    job) and as cameras do."""
    random = Random(seed)
    spark, camera = {}, {}
    for n in range(20_000):
        if n % 400 == 0:
            job = f"{random.getrandbits(128):032x}"
        folder = f"sales.db/orders/year=2026/month={n // 8000 + 1:02}/day={n // 400 % 28 + 1:02}"
        path = f"{folder}/part-{n % 400:05}-{job}.c000.parquet"
        begin = base32((1 << 40) - n, 8)
        name = begin + "".join(random.choices(BASE32, k=12)) + "/" + "".join(random.choices(BASE32, k=20))
        digest = md5(random.randbytes(8), usedforsecurity=False).hexdigest()
        e = ObjectEntry(path, f"mem://test/data/{name}", random.randrange(1 << 20, 1 << 28), digest, 1_780_000_000 + n)
        spark[path.encode()] = camera[f"lake/images/{n // 500:04}/img_{n:07}.jpg".encode()] = CODEC.encode(e)
    for records in (spark, camera):
        ordered = sorted(records)
        data = write_table(ordered, [records[key] for key in ordered], ALONE.scratch)
        print(f"{len(data) / len(records):.1f} bytes a record")  # noqa: T201
        assert len(data) <= 64 * len(records)
