"""Names of ranges changed once (``docs/format.md``, "Names"): fsck knows both kinds, and no third one."""

from pathlib import Path

import pytest

from graveler.lake.fsck.files import misdescribed, open_file
from graveler.model import MetarangeName
from graveler.tree.range_info import RangeInfo
from graveler.tree.recomputed_name import names_of
from graveler.tree.sstable import MalformedTableError
from graveler.tree.store import METARANGES, RANGES, TreeStore
from graveler.tree.tree import Tree
from tests.support.trees import ALONE
from tests.tree.make_golden import FolderFiles

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_files_of_every_released_format_are_whole(version: str) -> None:
    files = FolderFiles(GOLDEN / version)
    (metarange,) = (MetarangeName(file.name) for file in (GOLDEN / version / METARANGES).iterdir())
    lasts, packed = open_file(METARANGES, metarange, files.get(METARANGES, metarange))
    tree = Tree.load(TreeStore(files, ALONE), metarange)
    assert (tree.lasts, tree.packed) == (lasts, packed)
    for number in range(len(tree)):
        info = tree.info(number)
        keys, records = open_file(RANGES, info.name, files.get(RANGES, info.name))
        assert misdescribed(info, keys, records) is None
        assert names_of(keys, records).index(info.name) == (version == "v1")


def test_a_third_name_is_neither() -> None:
    files = FolderFiles(GOLDEN / "v2")
    name = next((GOLDEN / "v2" / RANGES).iterdir()).name
    range_id, _, second = name.partition("-")
    other = f"{range_id}-{second[::-1]}"
    with pytest.raises(MalformedTableError, match=name):
        open_file(RANGES, other, files.get(RANGES, name))
    keys, records = open_file(RANGES, name, files.get(RANGES, name))
    info = RangeInfo(keys[-1], bytes.fromhex(range_id), keys[0], len(keys), 0, 0, bytes.fromhex(second[::-1]))
    problem = misdescribed(info, keys, records)
    assert problem is not None
    assert "suffix" in problem.reason
