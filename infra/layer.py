"""The Lambda layer: graveler with what it runs on, built without Docker, the same bytes each time.

``python -m infra.layer`` builds it and prints where it lies. The versions are those of locks/dev.lock. Byte code is compiled
by the Python that Lambda runs and never compared with its source again (unchecked hashes), which halves a cold start. Of
botocore only the services stay that graveler asks; libraries lose what only debuggers read.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from infra import elf
from infra.elf import strip_libraries

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "layers" / "graveler" / "python" / "graveler"
LOCK: Final = ROOT / "locks/dev.lock"
BUILD: Final = ROOT / "build" / "layer"

PYTHON: Final = "3.13"
AWS_LIMIT: Final = 250 << 20
"""Bytes of a function and all its layers, unzipped: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""

BUDGETS: Final = {"arm64": 45 << 20, "x86_64": 48 << 20}
"""Bytes that the layer may have unzipped, by architecture: what it had when they were set, 37.4 and 39.5 MiB, and a fifth more.
So the next patches of dependencies fit, and a dependency that is new, or grows by a half, is noticed. Each byte is copied to the
machine that starts a function. A test holds the layer to them; a deployment beyond gets a warning, and fails at :data:`AWS_LIMIT`
only. They differ because code for x86-64 is larger: ``cryptography`` has 11.1 MiB of it and 10.0 for arm64, ``rocksdict`` 8.6 and
7.6."""

PLATFORMS: Final = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}
"""What the packages are chosen for, by Lambda's name of the architecture. Lambda's Amazon Linux 2023 has glibc 2.34."""

_EXTRAS: Final = ("api", "aws")
_ELSEWHERE: Final = (
    "__main__.py",
    "cli",
    "duckdb.py",
    "filesystem",
    "gateway",
    "polars.py",
    "server",
    "spark",
    "sql",
)
"""Rooms that stay out: they run on a person's machine or a cluster, and their libraries are not in the layer."""

QUERIES: Final = ("duckdb>=2",)
"""What checks of SQL need besides the common layer."""

COMMAND_LINE: Final = ("typer", "rich", "tomlkit")
"""Libraries of the plain installation that only the command line needs."""

_SERVICES: Final = (
    "dynamodb",
    "kms",
    "lambda",
    "s3",
    "sqs",
    "secretsmanager",
    "stepfunctions",
    "sts",
    "sso",
    "sso-oidc",
)
_DROPPED: Final = (
    "bin",
    "**/__pycache__",
    "**/tests",
    "boto3/examples",
    "cffi",  # the compiler of bindings; cryptography needs its library beside it, no more
    "pycparser",
    "zstandard/*cffi*",  # zstandard's other half, for PyPy
    "aws_lambda_powertools/event_handler",
    "**/*.pyi",  # for type checkers
    "**/py.typed",
    "*.dist-info/RECORD",  # these tell where and when somebody installed
    "*.dist-info/INSTALLER",
    "*.dist-info/REQUESTED",
    "*.dist-info/direct_url.json",
    "*.dist-info/uv_*",
    ".lock",
)
_POWERTOOLS: Final = ("jmespath_utils", "typing")
"""Of the utilities of aws_lambda_powertools, those that its logger and metrics import. The others are 2.5 MiB."""
_IN_LAMBDA: Final = "/opt/python"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


class LayerError(Exception):
    """The layer cannot be built; says why, and what to do."""


def build(architecture: str = "arm64", into: Path = BUILD) -> Path:
    """The layer as a zip file for an architecture of :data:`PLATFORMS`. Built unless it lies there already: its name holds a
    digest of all that it is made of. A few seconds; packages are fetched once."""
    if architecture not in PLATFORMS:
        raise LayerError(f"architecture {architecture!r} is unknown; choose one of {', '.join(PLATFORMS)}")
    interpreter = find_interpreter()
    target = into / f"graveler-{architecture}-{_content_key(architecture, interpreter)}.zip"

    def fill(folder: Path) -> None:
        _install(folder, architecture, _requirements())
        _copy_sources(folder / "graveler")
        _trim(folder)

    size = _build(target, fill, interpreter, AWS_LIMIT)
    if size > BUDGETS[architecture]:
        budget = BUDGETS[architecture] >> 20
        print(f"warning: the layer has {size / 2**20:.1f} MiB unzipped; its budget is {budget}", file=sys.stderr)
    return target


def build_queries(architecture: str, into: Path = BUILD) -> Path:
    """The layer with DuckDB, beside the common one, for the function that makes checks; otherwise as :func:`build`."""
    interpreter = find_interpreter()
    version = subprocess.run([interpreter, "-VV"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(f"{architecture} {QUERIES}".encode() + version)
    for file in (LOCK, Path(__file__), Path(elf.__file__)):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    target = into / f"queries-{architecture}-{digest.hexdigest()[:16]}.zip"

    def fill(folder: Path) -> None:
        _install(folder, architecture, QUERIES)
        _drop(folder)

    _build(target, fill, interpreter, AWS_LIMIT - BUDGETS[architecture])
    return target


def _build(target: Path, fill: Callable[[Path], None], interpreter: Path, most: int) -> int:
    """Build a layer of what ``fill`` puts into its folder of packages, unless it lies there. Returns its bytes unzipped, 0 for
    one that was built before."""
    if target.exists():
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=target.parent) as work:
        folder = Path(work) / "python"
        fill(folder)
        strip_libraries(folder)
        size = sum(file.stat().st_size for file in _compile(folder, interpreter))
        if size > most:
            raise LayerError(f"the layer has {size / 2**20:.1f} MiB unzipped, and AWS allows {most >> 20}")
        finished = Path(work) / "layer.zip"
        _zip(folder, finished)
        finished.replace(target)
    return size


def find_interpreter() -> Path:
    """A Python of the version that Lambda runs, which compiles the byte code. :class:`LayerError` if there is none."""
    if sys.version_info[:2] == tuple(map(int, PYTHON.split("."))):
        return Path(sys.executable)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{PYTHON}"), *sorted(versions.glob(f"{PYTHON}.*/bin/python"), reverse=True)]
    for candidate in candidates:
        if candidate and _is_right(Path(candidate)):
            return Path(candidate)
    raise LayerError(
        f"no Python {PYTHON} was found, which the layer's byte code is made by; install it, as python{PYTHON}"
    )


def _is_right(interpreter: Path) -> bool:
    asked = [str(interpreter), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    return said.returncode == 0 and said.stdout.strip() == PYTHON


def _requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = list(project["dependencies"])
    for extra in _EXTRAS:
        needed += project["optional-dependencies"][extra]
    return sorted(one for one in needed if not one.startswith(COMMAND_LINE))


def _content_key(architecture: str, interpreter: Path) -> str:
    version = subprocess.run([interpreter, "-VV"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(f"{architecture} {_requirements()}".encode() + version)
    for file in (LOCK, Path(__file__), Path(elf.__file__), *_sources()):
        digest.update(f"\0{file.relative_to(ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    return sorted(
        file
        for file in SOURCES.rglob("*")
        if file.is_file() and file.suffix != ".pyc" and file.relative_to(SOURCES).parts[0] not in _ELSEWHERE
    )


def _install(folder: Path, architecture: str, requirements: Sequence[str]) -> None:
    command: Sequence[str | Path] = [
        _uv(), "pip", "install", "--quiet", "--no-config",
        "--target", folder, "--python-platform", PLATFORMS[architecture], "--python-version", PYTHON,
        "--only-binary", ":all:", "--link-mode", "copy", "--constraint", LOCK, *requirements,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LayerError(f"the layer's packages could not be installed:\n{done.stderr.strip()}")


def _uv() -> Path:
    found = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))
    if found is None:
        raise LayerError("uv, which installs the layer's packages, is not there; `make deploy-tools` installs it")
    return Path(found)


def _copy_sources(folder: Path) -> None:
    for file in _sources():
        target = folder / file.relative_to(SOURCES)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _drop(folder: Path) -> None:
    for pattern in _DROPPED:
        for path in sorted(folder.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _trim(folder: Path) -> None:
    _drop(folder)
    for path in (*(folder / "botocore" / "data").iterdir(), *(folder / "boto3" / "data").iterdir()):
        if path.is_dir() and path.name not in _SERVICES:
            shutil.rmtree(path)
    for path in (folder / "aws_lambda_powertools" / "utilities").iterdir():
        if path.is_dir() and path.name not in _POWERTOOLS:
            shutil.rmtree(path)


def _compile(folder: Path, interpreter: Path) -> Iterator[Path]:
    """Compile, and yield all files, in order."""
    command: Sequence[str | Path] = [
        interpreter, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash",
        "-s", folder, "-p", _IN_LAMBDA, folder,
    ]  # fmt: skip
    # One process, one order of sets: byte code tells which constants a process has met before. And it is to be written at all.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, env={**environment, "PYTHONHASHSEED": "0"})
    yield from sorted(file for file in folder.rglob("*") if file.is_file())


def _zip(folder: Path, target: Path) -> None:
    """Zip a folder so that the same files give the same bytes: in order, without their times and owners."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            entry = zipfile.ZipInfo(str(file.relative_to(folder.parent)), _EPOCH)
            entry.external_attr = (0o755 if file.suffix == ".so" or ".so." in file.name else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the layer, and say where it lies and how large it is."""
    parser = argparse.ArgumentParser(prog="python -m infra.layer", description="Build the Lambda layer.")
    parser.add_argument("--architecture", choices=PLATFORMS, default="arm64")
    parser.add_argument("--into", type=Path, default=BUILD, help="folder for the zip file")
    chosen = parser.parse_args(arguments)
    try:
        layer = build(chosen.architecture, chosen.into)
    except LayerError as error:
        print(error, file=sys.stderr)
        return 1
    with zipfile.ZipFile(layer) as archive:
        unzipped = sum(entry.file_size for entry in archive.infolist())
    budget = BUDGETS[chosen.architecture] >> 20
    print(f"{layer} ({layer.stat().st_size / 2**20:.1f} MiB, {unzipped / 2**20:.1f} of {budget} MiB unzipped)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
