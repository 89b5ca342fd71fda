"""``graveler serve`` beside Iceberg's reference server of its REST catalog, on SQLite, each in a process of its own."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection, create_server
from typing import Final

from pyiceberg.catalog import load_catalog
from tests.support.s3a import maven_jars

from bench import servers
from bench.catalog_calls import Bounds, paired_calls
from bench.lines import Line
from bench.rows import REPOSITORY
from graveler.lake.opening.folder import create_folder_lake

PEER: Final = "reference server"
_POM: Final = Path(__file__).parent / "pom.xml"
_MAIN: Final = "org.apache.iceberg.rest.RESTCatalogServer"


def served_calls(folder: Path, repeat: int) -> list[Line]:
    """The calls of a catalog over HTTP, by turns in both servers; none without Maven, which fetches the reference server."""
    jars = maven_jars("reference-catalog", _POM)
    if not jars:
        return []
    lake = folder / "served-lake"
    create_folder_lake(lake).create_repository(REPOSITORY, f"local://{REPOSITORY}")
    ours = servers.graveler(["--lake", str(lake)], 1, source=f"{folder.as_uri()}/")
    with reference_server(folder, jars) as peer, ours as server:
        address = f"http://127.0.0.1:{server.port}/iceberg"
        catalogs = {
            PEER: load_catalog("reference", type="rest", uri=f"http://127.0.0.1:{peer}"),
            "graveler": load_catalog(
                "graveler",
                type="rest",
                uri=address,
                warehouse=f"{REPOSITORY}@main",
                credential=f"{servers.KEY_ID}:{servers.SECRET}",
                **{"oauth2-server-uri": f"{address}/v1/oauth/tokens"},
            ),
        }
        return paired_calls(catalogs, PEER, Bounds(load=1, commit=1, create=1, append=1), repeat, ", over HTTP")


@contextmanager
def reference_server(folder: Path, jars: tuple[Path, ...]) -> Iterator[int]:
    """Run the reference server; yields its port."""
    with create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    environment = os.environ | {
        "CATALOG_URI": f"jdbc:sqlite:{folder}/reference.db",
        "CATALOG_WAREHOUSE": f"file://{folder}/reference",
        "CATALOG_REST_PORT": str(port),
    }
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    with servers.running(["java", "-Xmx1g", quiet, "-cp", ":".join(map(str, jars)), _MAIN], environment) as process:
        deadline = time.monotonic() + servers.START_SECONDS
        while True:
            try:
                create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("bench: Iceberg's reference server did not start") from None
                time.sleep(servers.IDLE_SECONDS)
            else:
                yield port
                return
