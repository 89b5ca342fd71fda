"""How the files under ``tests/golden`` were made. Run once per released format; never again for one that is released.

``python -m tests.tree.make_golden tests/golden/v3`` writes a folder; ``contents.json`` says what a reader must find in it.
"""

import sys
from hashlib import md5, sha256
from pathlib import Path

import msgspec

from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry, SplitParameters
from graveler.tree.record import RecordCodec, encode_key
from graveler.tree.store import TreeStore
from graveler.tree.writer import build
from tests.support.trees import ALONE

NAMESPACE = "s3://golden/lake"
SPLIT = SplitParameters(min_size=1_000, max_size=8_000, raggedness=10)


class Golden(msgspec.Struct):
    """``contents.json``."""

    namespace: str
    split: SplitParameters
    metarange: str
    ranges: list[str]
    entries: list[ObjectEntry]


class FolderFiles:
    """The tree's port on a plain folder, ``<kind>/<name>``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        return (self.folder / kind / name).read_bytes()

    def put(self, kind: str, name: str, data: bytes) -> None:
        path = self.folder / kind / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def entries() -> list[ObjectEntry]:
    """Every kind of record once, and some hundred plain ones. Nothing random: digests stand in for it."""
    digits = "0123456789abcdefghijklmnopqrstuv"

    def data(n: int) -> str:
        raw = sha256(b"address %d" % n).digest() + sha256(b"again %d" % n).digest()
        letters = "".join(digits[byte & 31] for byte in raw[:40])
        return f"{NAMESPACE}/data/{letters[:20]}/{letters[20:]}"

    def checksum(n: int) -> str:
        return md5(b"%d" % n, usedforsecurity=False).hexdigest()

    found = [
        ObjectEntry(
            f"events/day={n // 40:02}/part-{n:05}.parquet", data(n), 1000 * n + 1, checksum(n), 1_790_000_000 + n
        )
        for n in range(300)
    ]
    found += [
        ObjectEntry("empty", data(1000), 0, checksum(1000), 0),
        ObjectEntry("imported", "s3://elsewhere/a/b c.csv", 7, checksum(1001), 1_700_000_000, "text/csv"),
        ObjectEntry(
            "inside", f"{NAMESPACE}/landing/é/x", 8, checksum(1002), 1, DEFAULT_CONTENT_TYPE, {"k": "v", "": ""}
        ),
        ObjectEntry("lookalike", "s3://golden/lake2/data/x", 9, checksum(1003).upper(), -1),
        ObjectEntry("multipart", data(1004), 2**40, f"{checksum(1004)}-12", 2**33),
        ObjectEntry("no checksum", data(1005), 1, "", 5),
        ObjectEntry("größe/日本/😀", data(1006), 2, "not hex é", 6, "application/x-ü", {"ключ": "значение"}),
        ObjectEntry("nul\x00byte//", data(1007), 3, checksum(1007), 7),
        ObjectEntry("long/" + "x" * 1019, data(1008), 4, checksum(1008), 8),
        ObjectEntry("_SUCCESS", data(1009), 0, checksum(1000), 9),
    ]
    return sorted(found, key=lambda e: e.path.encode())


def make(folder: Path) -> Golden:
    """Write the folder."""
    codec = RecordCodec(NAMESPACE)
    store = TreeStore(FolderFiles(folder), ALONE)
    tree = build(store, SPLIT, ((encode_key(e.path), codec.encode(e)) for e in entries()))
    ranges = [tree.info(number).name for number in range(len(tree))]
    golden = Golden(NAMESPACE, SPLIT, tree.save(), ranges, entries())
    (folder / "contents.json").write_bytes(msgspec.json.format(msgspec.json.encode(golden), indent=1))
    return golden


if __name__ == "__main__":
    make(Path(sys.argv[1]))
