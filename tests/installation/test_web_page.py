"""The wheel has the built web page, and nothing that builds it."""

from pathlib import Path
from zipfile import ZipFile

from tests.installation.wheel import ROOT

PACKAGE = ROOT / "web" / "package"
MOST_BYTES = 600 << 10
"""Of the page's files in the wheel, compressed."""


def test_the_wheel_has_the_built_files_and_no_sources(wheel: Path) -> None:
    built = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*") if file.suffix not in ("", ".pyc")}
    with ZipFile(wheel) as archive:
        packed = {
            entry.filename: entry.compress_size for entry in archive.infolist() if "graveler_page" in entry.filename
        }
        assert not [name for name in archive.namelist() if name.startswith("web/")]
    assert packed.keys() == built
    assert "graveler_page/index.html" in packed
    assert sum(packed.values()) < MOST_BYTES
