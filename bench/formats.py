"""``python -m bench.formats``: the trials from which details of the format were chosen, as tables for ``docs/format.md``.

Ranges of several mean sizes, and blocks of several sizes and compressions. Works on trees alone, in one process; times are of
the processor, so that a busy machine matters less.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from statistics import mean, median
from typing import TypeVar

from rocksdict import BlockBasedOptions, ChecksumType, DBCompressionType, Options

from bench import keys
from graveler.model import SplitParameters
from graveler.runtime.local import LocalRuntime, ScratchFolder
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.tree import sstable
from graveler.tree.apply import apply
from graveler.tree.block import ZSTD_LEVEL
from graveler.tree.diff import diff
from graveler.tree.listing import list_page
from graveler.tree.range_notes import MemoryNotes
from graveler.tree.record import RecordCodec
from graveler.tree.sstable import Table, write_table
from graveler.tree.store import METARANGES, TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import build

T = TypeVar("T")
NAMESPACE = "local://formats"
DEFAULT = SplitParameters()
HUGE = 1_000_000_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.formats", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where files and keys go")
    arguments = parser.parse_args()
    paths = list(keys.read(keys.debian(arguments.folder)))
    print(sizes_table(arguments.folder / "formats", paths))
    print(blocks_table(arguments.folder / "formats", paths[800_000:900_000]))
    rmtree(arguments.folder / "formats", ignore_errors=True)


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the processor, and the result."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def sizes_table(folder: Path, paths: list[bytes]) -> str:
    """Costs by the mean size of ranges."""
    titles = (
        "ranges: mean, largest",
        "commit of 1 change: median, worst",
        "1,000 spread",
        "diff of those",
        "page of 1,000, cold",
        "bytes a record",
        "files written by the 1,000",
        "metarange of 1e9 objects: bytes, to load",
    )
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for factor in (0.5, 1, 2, 4):
        split = SplitParameters(
            int(DEFAULT.min_size * factor), int(DEFAULT.max_size * factor), int(DEFAULT.raggedness * factor)
        )
        lines.append(sizes_line(folder, paths, split))
    return "\n".join([*lines, ""])


def sizes_line(folder: Path, paths: list[bytes], split: SplitParameters) -> str:
    """One mean size."""
    rmtree(folder, ignore_errors=True)
    chance = random.Random(5)
    encode = RecordCodec(NAMESPACE).encode

    def changes(some: list[bytes], version: int) -> list[tuple[bytes, bytes]]:
        return [(path, encode(keys.entry(path, version))) for path in sorted(some)]

    files = ImmutableFiles(FolderObjects(folder, NAMESPACE), None)
    store = TreeStore(files, LocalRuntime(), notes=MemoryNotes(1 << 30))
    tree = build(store, split, ((path, encode(keys.entry(path))) for path in paths))
    name = tree.save()
    on_disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    ones = []
    for _ in range(25):
        change = changes([chance.choice(paths)], 1)
        apply(tree, change, split)  # its range is known from now on
        ones.append(timed(lambda change=change: apply(tree, change, split))[0])  # type: ignore[misc]
    spread = changes(chance.sample(paths, 1000), 2)
    many, result = timed(lambda: apply(tree, spread, split))
    compared, _ = timed(lambda: sum(1 for _ in diff(tree, result)))
    pages = []
    for _ in range(15):
        fresh = Tree(TreeStore(files, LocalRuntime()), tree.lasts, tree.packed)
        after = chance.choice(paths)
        pages.append(timed(lambda fresh=fresh, after=after: list_page(fresh.chunk, after=after))[0])  # type: ignore[misc]
    loading, _ = timed(lambda: Tree.load(TreeStore(files, LocalRuntime()), name))
    written = len(set(result.packed) - set(tree.packed))
    counts = [tree.info(number).count for number in range(len(tree))]
    ranges = HUGE / mean(counts)
    metarange = store.read(METARANGES, name, None).size / len(tree) * ranges
    return (
        f"| {mean(counts):,.0f}, {max(counts):,} | {median(ones) * 1e3:.1f} ms, {max(ones) * 1e3:.0f} ms | {many:.2f} s "
        f"| {compared:.2f} s | {median(pages) * 1e3:.1f} ms | {on_disk / len(paths):.1f} | {written} "
        f"| {metarange / 1e6:.1f} MB, {loading / len(tree) * ranges:.2f} s |"
    )


def options(block: int, compression: DBCompressionType, level: int, restarts: int) -> Options:
    """Table options that differ from ours in these."""
    made = Options(raw_mode=True)
    made.set_compression_type(compression)
    made.set_compression_options(-14, level, 0, 0)
    blocks = BlockBasedOptions()
    blocks.set_block_size(block)
    blocks.set_block_restart_interval(restarts)
    blocks.set_index_block_restart_interval(1)
    blocks.set_format_version(5)
    blocks.set_checksum_type(ChecksumType.xxh3())
    made.set_block_based_table_factory(blocks)
    return made


@contextmanager
def written_with(chosen: Options) -> Iterator[None]:
    """Tables are written with these options."""
    ours = sstable._options
    sstable._options = lambda: chosen  # type: ignore[assignment]
    try:
        yield
    finally:
        sstable._options = ours


def blocks_table(folder: Path, paths: list[bytes]) -> str:
    """Costs by block size, compression and restart interval, in ranges of 10,000 records."""
    folder.mkdir(parents=True, exist_ok=True)
    encode = RecordCodec(NAMESPACE).encode
    packed = [encode(keys.entry(path)) for path in paths]
    chance = random.Random(5)
    zstd, plain = DBCompressionType.zstd(), DBCompressionType.none()
    trials = [
        (f"{size >> 10} KiB, zstd", size, zstd, ZSTD_LEVEL, 16)
        for size in (4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10)
    ]
    trials += [(f"16 KiB, zstd level {level}", 16 << 10, zstd, level, 16) for level in (1, 3, 9)]
    trials += [("16 KiB, not compressed", 16 << 10, plain, 0, 16)]
    lines = [
        "| blocks | bytes a record | write | scan | look up one record, block not in memory |",
        "|---|---|---|---|---|",
    ]
    scratch = ScratchFolder(folder)
    for title, size, compression, level, restarts in trials:
        with written_with(options(size, compression, level, restarts)):
            writing = scanning = looking = 0.0
            stored = 0
            for at in range(0, len(paths), 10_000):
                some, values = paths[at : at + 10_000], packed[at : at + 10_000]
                spent, data = timed(lambda some=some, values=values: write_table(some, values, scratch))  # type: ignore[misc]
                writing, stored = writing + spent, stored + len(data)
                table = Table(data)
                scanning += timed(lambda table=table: sum(len(found) for found, _ in table.blocks()))[0]  # type: ignore[misc]
                wanted = chance.sample(some, 200)
                looking += timed(lambda table=table, wanted=wanted: [table.get(key) for key in wanted])[0]  # type: ignore[misc]
        count = len(paths)
        looked = len(range(0, count, 10_000)) * 200
        lines.append(
            f"| {title} | {stored / count:.1f} | {writing / count * 1e6:.2f} µs | {scanning / count * 1e6:.2f} µs "
            f"| {looking / looked * 1e6:.1f} µs |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
