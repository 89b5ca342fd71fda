"""The layer: small, whole, and the same each time."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from infra import layer as layer_module
from infra.elf import without_debug_data
from infra.layer import AWS_LIMIT, BUDGETS, LayerError, build, find_interpreter
from tests.infra.tools import PYTHON, ROOT, environment, host_architecture, require_tools

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


@pytest.mark.parametrize("architecture", ["arm64", "x86_64"])
def test_it_is_within_its_budget_which_leaves_room(architecture: str, layer: Path) -> None:
    with zipfile.ZipFile(layer if architecture == "arm64" else build(architecture)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    assert size <= BUDGETS[architecture]
    assert BUDGETS[architecture] <= AWS_LIMIT / 4
    assert size > BUDGETS[architecture] * 0.7, "it has shrunk: lower its budget, so that growth is noticed"


def test_more_than_the_budget_is_a_warning_and_more_than_aws_allows_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require_tools()
    monkeypatch.setattr(layer_module, "_install", lambda folder, _: _small_installation(folder))
    monkeypatch.setattr(layer_module, "_sources", list)
    monkeypatch.setitem(BUDGETS, "arm64", 100)
    assert build("arm64", tmp_path).exists()
    assert "warning: the layer has 0.0 MiB unzipped; its budget is 0" in capsys.readouterr().err
    monkeypatch.setattr(layer_module, "AWS_LIMIT", 100)
    with pytest.raises(LayerError, match="and AWS allows"):
        build("arm64", tmp_path / "another place")


def _small_installation(folder: Path) -> None:
    for name in ("botocore/data", "boto3/data", "aws_lambda_powertools/utilities"):
        (folder / name).mkdir(parents=True)
    (folder / "module.py").write_text(f"text = {'x' * 200!r}\n")


def test_what_was_taken_out_is_missed_by_no_module(tmp_path: Path) -> None:
    """Each module of the layer is imported by the layer alone, with the libraries that lost their debug data."""
    require_tools()
    with zipfile.ZipFile(build(host_architecture())) as archive:
        archive.extractall(tmp_path)
    program = (
        "import importlib, pkgutil, sys\nsys.path.insert(0, sys.argv[1])\nimport graveler\n"
        "names = [each.name for each in pkgutil.walk_packages(graveler.__path__, 'graveler.')]\n"
        "[importlib.import_module(name) for name in names]\n"
        "import cryptography.hazmat.primitives.ciphers.aead, rocksdict, xxhash, zstandard\n"
        "assert zstandard.decompress(zstandard.compress(b'data')) == b'data'\n"
        "assert len(xxhash.xxh3_128_digest(b'data')) == 16\nprint(len(names))"
    )
    done = subprocess.run(
        [find_interpreter(), "-I", "-c", program, tmp_path / "python"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


def test_libraries_keep_their_segments_and_lose_what_lies_behind(layer: Path) -> None:
    with zipfile.ZipFile(layer) as archive:
        libraries = {name: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
    for name, data in libraries.items():
        assert without_debug_data(data) == data, name
        assert data[0x28:0x30] == bytes(8), f"{name} has section headers"
    (name, data), *_ = libraries.items()
    padded = data + b".symtab and more"
    assert without_debug_data(padded) == data, name
    assert without_debug_data(b"no library") == b"no library"


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
    assert "__main__.py" not in rooms
    assert not tops & {"typer", "granian", "pyarrow", "numpy", "pydantic", "bin"}
    assert not rooms & {"cli", "duckdb.py", "filesystem", "gateway", "polars.py", "server", "spark", "sql"}


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LayerError, match="architecture 'mips' is unknown; choose one of arm64, x86_64"):
        build("mips", tmp_path)


def test_the_interpreter_is_that_of_lambda() -> None:
    require_tools()
    said = subprocess.run([find_interpreter(), "-V"], env=environment(), capture_output=True, text=True, check=True)
    assert said.stdout.startswith("Python 3.13")
    assert PYTHON.exists()
