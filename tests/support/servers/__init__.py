"""Real servers for tests: DynamoDB Local, which is DynamoDB's own engine, and s3proxy, an S3 server with its own ideas.

Java programs, fetched by Maven once into a cache folder (``$XDG_CACHE_HOME/graveler-tests``), each started when a test process
first asks for it and ended with that process. Where Java or Maven is missing, tests that need them are skipped and say
so; with ``CI=true`` that is an error.
"""

import atexit
import fcntl
import os
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import IO, Final

import pytest

ACCESS_KEY: Final = "localidentity"
SECRET_KEY: Final = "localcredential"
REGION: Final = "us-east-1"

_HERE: Final = Path(__file__).parent
_FETCH: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_JAVA: Final = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")
_LISTENING: Final = re.compile(rb"127\.0\.0\.1:(\d+)")
_S3_PROPERTIES: Final = f"""\
s3proxy.endpoint=http://127.0.0.1:0
s3proxy.authorization=aws-v4
s3proxy.ignore-unknown-headers=true
s3proxy.identity={ACCESS_KEY}
s3proxy.credential={SECRET_KEY}
jclouds.provider=transient-nio2
jclouds.identity=none
jclouds.credential=none
"""


@cache
def dynamodb_local() -> str:
    """Endpoint URL of a DynamoDB Local of this process. Takes any credentials."""
    folder = _installed()
    return _started(folder, "dynamodb", f"-Djava.library.path={folder / 'dynamodb'}", [])


@cache
def s3proxy() -> str:
    """Endpoint URL of an s3proxy of this process, which keeps everything in memory, and checks signatures. It knows no sessions,
    and ignores their tokens."""
    folder = _installed()
    properties = folder / "s3proxy.properties"
    return _started(folder, "s3", "-Dnone=", [str(properties)])


def _installed() -> Path:
    """The folder with the jars of both servers (whose libraries do not get on), and what starts them."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        reason = f"no {' and no '.join(missing)} here, so nothing is tested on DynamoDB Local and s3proxy"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            raise RuntimeError(reason)
        pytest.skip(reason)
    sources = [_HERE / "pom.xml", _HERE / "Servers.java"]
    version = sha256(b"".join(path.read_bytes() for path in sources) + _S3_PROPERTIES.encode()).hexdigest()[:16]
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_home / "graveler-tests" / version
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:  # of several test processes one fetches
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = folder.with_suffix(".making")
            shutil.rmtree(making, ignore_errors=True)
            _install(making)
            making.rename(folder)
    return folder


def _install(folder: Path) -> None:
    jars = folder / "dynamodb"
    _run("mvn", "-q", "-B", "-f", str(_HERE / "pom.xml"), _FETCH, f"-DoutputDirectory={jars}")
    (folder / "s3").mkdir()
    for jar in jars.glob("s3proxy-*.jar"):
        jar.rename(folder / "s3" / jar.name)
    (folder / "s3proxy.properties").write_text(_S3_PROPERTIES)
    _run("javac", "-d", str(folder), str(_HERE / "Servers.java"))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _started(folder: Path, kind: str, option: str, arguments: list[str]) -> str:
    jars = folder / ("dynamodb" if kind == "dynamodb" else "s3")
    process = subprocess.Popen(
        [*_JAVA, option, "-cp", f"{folder}:{jars}/*", "Servers", kind, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    atexit.register(_end, process)
    said = b""
    for line in process.stdout:
        said += line
        found = _LISTENING.search(line)
        if found:
            Thread(target=_drain, args=(process.stdout,), daemon=True).start()
            return f"http://127.0.0.1:{int(found[1])}"
    raise RuntimeError(f"the server {kind} did not start:\n{said.decode(errors='replace')}")


def _drain(output: IO[bytes]) -> None:
    """A server that nobody listens to would stop when its pipe is full."""
    with suppress(ValueError):  # closed under our hands, at the end
        while output.read1(65536):  # type: ignore[attr-defined]
            pass


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
