"""Spark's way to S3 for tests: the jars of s3a, and what tells a session of the tests' own S3 server.

Fetched by Maven once into the cache folder of the servers (``$XDG_CACHE_HOME/graveler-tests``), 20 MB. A session takes jars only
when it starts, so the fixture of the session asks for them; where Maven is missing it starts without, and tests that need S3
are skipped and say so; with ``CI=true`` that is an error.
"""

import fcntl
import os
import shutil
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.support.servers import ACCESS_KEY, REGION, SECRET_KEY

POM: Final = Path(__file__).parent / "pom.xml"
_FETCH: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


@cache
def s3a_jars() -> tuple[Path, ...]:
    """The jars; none where they cannot be fetched."""
    return maven_jars("s3a", POM)


def maven_jars(name: str, pom: Path, parent: Path | None = None) -> tuple[Path, ...]:
    """The jars that a pom names, and its ``parent``, with what they need, in the cache folder; none where there is no Maven."""
    if shutil.which("mvn") is None:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            raise RuntimeError(f"no mvn here, so nothing of Spark is tested with {name}")
        return ()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graveler-tests"
    poms = (pom,) if parent is None else (parent, pom)
    folder = home / f"{name}-{sha256(b''.join(file.read_bytes() for file in poms)).hexdigest()[:16]}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:  # of several test processes one fetches
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = folder.with_suffix(".making")
            shutil.rmtree(making, ignore_errors=True)
            command = [
                "mvn",
                "-q",
                "-B",
                "-f",
                str(pom),
                _FETCH,
                "-DincludeScope=runtime",
                f"-DoutputDirectory={making}",
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
            making.rename(folder)
    return tuple(sorted(folder.glob("*.jar")))


def s3a_options(endpoint: str) -> dict[str, str]:
    """What a session's Hadoop configuration needs to know to reach an S3 server of the tests."""
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": REGION,
        "fs.s3a.access.key": ACCESS_KEY,
        "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.change.detection.mode": "none",
    }
