"""The layer: small, whole, and the same each time."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from infra.layer import MAX_UNZIPPED, LayerError, build, find_interpreter
from tests.infra.tools import PYTHON, ROOT, environment, require_tools

pytestmark = pytest.mark.ci

UNCHECKED_HASH = 0b01
"""The flags of byte code that is never compared with its source."""


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Built twice, in different places."""
    require_tools()
    return build("arm64", tmp_path_factory.mktemp("layer")), build("arm64", tmp_path_factory.mktemp("another place"))


@pytest.fixture(scope="module")
def layer(twins: tuple[Path, Path]) -> Path:
    return twins[0]


def test_the_same_sources_give_the_same_bytes(twins: tuple[Path, Path]) -> None:
    one, other = twins
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()


def test_it_is_small(layer: Path) -> None:
    with zipfile.ZipFile(layer) as archive:
        assert sum(entry.file_size for entry in archive.infolist()) <= MAX_UNZIPPED


def test_each_module_has_its_byte_code(layer: Path) -> None:
    with zipfile.ZipFile(layer) as archive:
        names = set(archive.namelist())
        modules = [name for name in names if name.endswith(".py")]
        for name in modules:
            folder, _, file = name.rpartition("/")
            compiled = f"{folder}/__pycache__/{file.removesuffix('.py')}.cpython-313.pyc"
            assert compiled in names
            assert int.from_bytes(archive.read(compiled)[4:8], "little") == UNCHECKED_HASH
    assert "python/graveler/functions/entry.py" in modules


def test_nothing_of_this_machine_is_in_it(layer: Path) -> None:
    places = (str(ROOT).encode(), str(Path.home()).encode() + b"/")
    with zipfile.ZipFile(layer) as archive:
        for name in archive.namelist():
            assert name.startswith("python/")
            if name.endswith((".pyc", ".txt", "METADATA", "RECORD")):
                data = archive.read(name)
                assert not any(place in data for place in places), name


def test_libraries_are_those_of_the_architecture(layer: Path) -> None:
    arm64 = 183
    with zipfile.ZipFile(layer) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
        assert libraries
        for name in libraries:
            assert int.from_bytes(archive.read(name)[18:20], "little") == arm64, name


def test_faces_and_their_libraries_stay_out(layer: Path) -> None:
    with zipfile.ZipFile(layer) as archive:
        tops = {name.split("/")[1] for name in archive.namelist()}
        rooms = {name.split("/")[2] for name in archive.namelist() if name.startswith("python/graveler/")}
    assert not tops & {"typer", "granian", "pyarrow", "numpy", "pydantic", "bin"}
    assert not rooms & {"arrow", "cli", "duckdb.py", "filesystem", "polars.py", "rowdiff", "server", "spark", "sql"}


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LayerError, match="architecture 'mips' is unknown; choose one of arm64, x86_64"):
        build("mips", tmp_path)


def test_the_interpreter_is_that_of_lambda() -> None:
    require_tools()
    said = subprocess.run([find_interpreter(), "-V"], env=environment(), capture_output=True, text=True, check=True)
    assert said.stdout.startswith("Python 3.13")
    assert PYTHON.exists()
