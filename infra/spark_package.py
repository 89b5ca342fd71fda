"""What Spark on a cluster needs of graveler: one archive with its Python packages, and the jobs, for EMR Serverless and others.

``python -m infra.spark_package`` builds it without Docker and prints where it lies. The archive is laid out like one that
venv-pack makes, so the same parameters apply (``spark.archives``, ``PYSPARK_PYTHON=./environment/bin/python``), but it holds no
interpreter: its ``bin/python`` runs the ``python3.11`` of the cluster with these packages, whose versions are those of
locks/spark.lock. Spark itself stays out: the cluster has its own.
"""

import argparse
import gzip
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from infra.job_flow import ARCHIVE, JOBS

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "layers" / "graveler" / "python" / "graveler"
LOCK: Final = ROOT / "locks/spark.lock"
BUILD: Final = ROOT / "build" / "spark"

PYTHON: Final = "3.11"
PLATFORMS: Final = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}
"""What the packages are chosen for, by EMR's name of the architecture."""

_EXTRAS: Final = ("aws", "remote", "spark")
_CLUSTERS_OWN: Final = ("pyspark", "py4j")
_DROPPED: Final = ("bin", "**/__pycache__", "**/tests", "*.dist-info/RECORD", ".lock")
_SERVICES: Final = ("dynamodb", "s3", "secretsmanager", "sts", "sso", "sso-oidc")
_LAUNCHER: Final = """\
#!/bin/sh
# The cluster's Python with the packages beside this file.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
PYTHONPATH="$here/lib/python{version}/site-packages${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec "${{GRAVELER_PYTHON:-python{version}}}" "$@"
"""


class PackageError(Exception):
    """The package cannot be built; says why, and what to do."""


def build(architecture: str = "arm64", into: Path = BUILD) -> Path:
    """The archive for an architecture of :data:`PLATFORMS`, ``graveler-<architecture>-<digest>.tar.gz``, with the jobs beside it
    in ``jobs/``. Built unless it lies there already. Some seconds; packages are fetched once."""
    if architecture not in PLATFORMS:
        raise PackageError(f"architecture {architecture!r} is unknown; choose one of {', '.join(PLATFORMS)}")
    into.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(into / JOBS, ignore_errors=True)
    shutil.copytree(SOURCES / "spark" / "jobs", into / JOBS, ignore=lambda _, names: [n for n in names if n[0] == "_"])
    (into / JOBS / "frame.py").unlink()
    target = into / f"graveler-{architecture}-{_content_key(architecture)}.tar.gz"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(prefix="building-", dir=into) as work:
        folder = Path(work) / "environment"
        packages = folder / "lib" / f"python{PYTHON}" / "site-packages"
        _install(packages, architecture)
        shutil.copytree(SOURCES, packages / "graveler", ignore=shutil.ignore_patterns("__pycache__"))
        _trim(packages)
        launcher = folder / "bin" / "python"
        launcher.parent.mkdir()
        launcher.write_text(_LAUNCHER.format(version=PYTHON))
        launcher.chmod(0o755)
        finished = Path(work) / "finished"
        with finished.open("wb") as file:
            _archive(folder, file)
        finished.replace(target)
    return target


def _requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = list(project["dependencies"])
    for extra in _EXTRAS:
        needed += project["optional-dependencies"][extra]
    return sorted(one for one in needed if not one.startswith(_CLUSTERS_OWN))


def _content_key(architecture: str) -> str:
    digest = hashlib.sha256(f"{architecture} {_requirements()}".encode())
    for file in (LOCK, Path(__file__), *_sources()):
        digest.update(f"\0{file.relative_to(ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    return sorted(file for file in SOURCES.rglob("*") if file.is_file() and file.suffix != ".pyc")


def _install(folder: Path, architecture: str) -> None:
    uv = ROOT / ".venv" / "bin" / "uv"
    if not uv.exists():
        raise PackageError("uv, which installs the packages, is not there; `make setup` installs it")
    command: Sequence[str | Path] = [
        uv, "pip", "install", "--quiet", "--no-config",
        "--target", folder, "--python-platform", PLATFORMS[architecture], "--python-version", PYTHON,
        "--only-binary", ":all:", "--link-mode", "copy", "--constraint", LOCK, *_requirements(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackageError(f"the packages could not be installed:\n{done.stderr.strip()}")


def _trim(packages: Path) -> None:
    for pattern in _DROPPED:
        for path in sorted(packages.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for path in (packages / "botocore" / "data").iterdir():
        if path.is_dir() and path.name not in _SERVICES:
            shutil.rmtree(path)


def _archive(folder: Path, target: IO[bytes]) -> None:
    """A folder's contents so that the same files give the same bytes: in order, without their times and owners."""
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=target, compresslevel=4, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in sorted(folder.rglob("*")):
            entry = archive.gettarinfo(path, path.relative_to(folder).as_posix())
            entry.mtime = entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if entry.isreg():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the archive, and say where it lies and how large it is."""
    parser = argparse.ArgumentParser(prog="python -m infra.spark_package", description="Package graveler for Spark.")
    parser.add_argument("--architecture", choices=PLATFORMS, default="arm64")
    parser.add_argument("--into", type=Path, default=BUILD, help="folder for the archive and the jobs")
    chosen = parser.parse_args(arguments)
    try:
        archive = build(chosen.architecture, chosen.into)
    except PackageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(
        f"{archive} ({archive.stat().st_size / 2**20:.1f} MiB), jobs in {chosen.into / JOBS}\n"
        f"A deployment with the setting spark uploads both by itself. For another application of EMR Serverless:\n"
        f"  aws s3 cp {archive} s3://BUCKET/{ARCHIVE}\n"
        f"  aws s3 cp --recursive {chosen.into / JOBS} s3://BUCKET/{JOBS}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
