"""Iceberg's REST compatibility kit, fetched by Maven once, 190 MB, and its run against a catalog.

The kit names files by constants: data in ``/path/to``, which a catalog that looks at files must find there, and locations in
``/tmp``. Copies of its classes with the addresses of a test's own place go before it on the class path.
"""

import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from zipfile import ZipFile

from msgspec import Struct

from tests.support.patience import PATIENCE
from tests.support.s3a import maven_jars

TABLES: Final = "RESTCompatibilityKitCatalogTests"
TABLES_WITH_ALL_NAMES: Final = "AllNamesTests"
VIEWS: Final = "RESTCompatibilityKitViewCatalogTests"
_HERE: Final = Path(__file__).parent
_PACKAGE: Final = "org.apache.iceberg.rest"
_DATA, _LOCATIONS = b"/path/to/", b"file:/tmp"
DATA_FILES: Final = {f"data-{name}.parquet": b"0123456789" for name in "abcdef"}
"""The kit's data files have 10 bytes, which nobody reads."""
_UTF8: Final = 1
_ENTRY_BYTES: Final = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
"""The bytes of a constant of a class behind its tag, by the tag; texts state their size."""
_TWO_PLACES: Final = (5, 6)
_OUTCOMES: Final = {"failure": "failed", "error": "failed", "skipped": "skipped"}
_SYSTEM: Final = {
    "rck.local": "false",
    "rck.requires-namespace-create": "true",
    "rck.supports-serverside-retry": "true",
    "rck.supports-names-with-dot": "true",
    "rck.overrides-requested-location": "true",
    "org.slf4j.simpleLogger.defaultLogLevel": "error",
}


@cache
def iceberg_kit_jars() -> tuple[Path, ...]:
    """The jars; none where they cannot be fetched, as in :func:`tests.support.s3a.s3a_jars`."""
    return maven_jars("iceberg-kit", _HERE / "pom.xml")


class KitPlace(Struct, frozen=True):
    """The places of a run: a ``folder`` of its own on this machine, and addresses without a slash at their end: of
    :data:`DATA_FILES`, which tables of the catalog may name, and of the locations that the kit chooses."""

    folder: Path
    data: str
    locations: str


def run_kit(catalog: Mapping[str, str], place: KitPlace, selected: Sequence[str]) -> tuple[dict[str, str], str]:
    """Run tests of the kit against the catalog with these properties; ``selected`` are classes, or ``class#method``.

    Returns the outcomes by ``class.method``, each ``passed``, ``failed`` or ``skipped``, and what the kit said.
    """
    folder, classes = place.folder, place.folder / "classes"
    _copy_classes(classes, place)
    class_path = ":".join(map(str, (classes, *iceberg_kit_jars())))
    if any(name.startswith(TABLES_WITH_ALL_NAMES) for name in selected):
        source = _HERE / f"{TABLES_WITH_ALL_NAMES}.java"
        subprocess.run(["javac", "-cp", class_path, "-d", str(classes), str(source)], check=True, timeout=PATIENCE)
    options = [f"-D{name}={text}" for name, text in {**_SYSTEM, "java.io.tmpdir": str(folder)}.items()]
    selectors = [
        word
        for name in selected
        for word in ("--select-method" if "#" in name else "--select-class", f"{_PACKAGE}.{name}")
    ]
    console = ["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=none"]
    java = ["java", "-Xmx600m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options, "-cp", class_path]
    done = subprocess.run(
        [*java, *console, *selectors, "--reports-dir", str(folder / "reports")],
        env={**os.environ, **{f"CATALOG_{_variable(name)}": text for name, text in catalog.items()}},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    report = folder / "reports" / "TEST-junit-jupiter.xml"
    assert report.exists(), done.stdout + done.stderr
    return _outcomes(report), done.stdout + done.stderr


def _variable(name: str) -> str:
    """Return the rest of the variable by which the kit takes a property of the catalog."""
    return name.upper().replace("-", "__").replace(".", "_")


def _outcomes(report: Path) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '').split('(')[0]}"
        outcome = next((_OUTCOMES[part.tag] for part in case if part.tag in _OUTCOMES), "passed")
        if outcomes.get(name) != "failed":  # a method with parameters is several cases
            outcomes[name] = outcome
    return outcomes


def _copy_classes(classes: Path, place: KitPlace) -> None:
    """Write the kit's classes that name files, with the addresses of the place instead of those that they name."""
    texts = {_DATA: f"{place.data}/".encode(), _LOCATIONS: place.locations.encode()}
    (jar,) = (path for path in iceberg_kit_jars() if path.name.startswith("iceberg-core-") and "tests" in path.name)
    with ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("org/apache/iceberg/catalog/CatalogTests"):
                target = classes / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(with_other_texts(archive.read(name), texts))


def with_other_texts(data: bytes, texts: Mapping[bytes, bytes]) -> bytes:
    """Return a class file whose constants begin with other texts."""
    (count,) = struct.unpack_from(">H", data, 8)
    parts, position, index = [data[:10]], 10, 1
    while index < count:
        tag = data[position]
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", data, position + 1)
            end = position + 3 + size
            text = data[position + 3 : end]
            for beginning, other in texts.items():
                if text.startswith(beginning):
                    text = other + text.removeprefix(beginning)
            parts.append(struct.pack(">BH", tag, len(text)) + text)
        else:
            end = position + 1 + _ENTRY_BYTES[tag]
            parts.append(data[position:end])
        position, index = end, index + (2 if tag in _TWO_PLACES else 1)
    return b"".join([*parts, data[position:]])
