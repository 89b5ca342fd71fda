"""The wheel in fresh environments: the plain installation works, and each missing extra is named in one line."""

import json
import re
import tomllib
from email.parser import HeaderParser
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

from graveler.cli.exits import ExitCode
from tests.installation.wheel import ROOT, Environment, install

PROBES: Final = {
    "api": """
from graveler.api.forms import uploaded
form = b'--x\\r\\nContent-Disposition: form-data; name="content"\\r\\n\\r\\nhello\\r\\n--x--\\r\\n'
with uploaded("multipart/form-data; boundary=x", form) as (body, _):
    assert body == b"hello"
""",
    "arrow": """
import graveler
from pathlib import Path
with graveler.create("probe-lake") as lake:
    lake.repositories().to_arrow()""",
    "aws": """
from pathlib import Path
from graveler.lake.opening.location import AwsLake, open_at
open_at(AwsLake(objects="s3://bucket/lake", tables="dynamodb://lake", cache=Path("cache"), region="eu-central-1"))""",
    "fsspec": "import graveler.filesystem; graveler.filesystem.GravelerFileSystem",
    "iceberg": "import graveler.iceberg; graveler.iceberg.Catalog",
    "listing": "from graveler.retention.report import check_possible; check_possible()",
    "remote": """
from graveler.location.environment import ServedLake
from graveler.remote.opening import open_served
open_served(ServedLake(url="http://127.0.0.1:1", key_id="key", secret="secret"))""",
    "server": """
from contextlib import suppress
from graveler.cli.verbs.serve import serve
from graveler.errors import InvalidError
with suppress(InvalidError):  # what it says of the host shows that it got that far
    serve(host="0.0.0.0", open_setup=True)""",
    "polars": """
from contextlib import suppress
import graveler.polars
with suppress(FileNotFoundError):  # there is no lake, which shows that it got that far
    graveler.polars.scan_parquet("graveler://sales/main/a", "lake")""",
    "sql": "import graveler.duckdb; graveler.duckdb.connect('lake')",
    "spark": "import graveler.spark; graveler.spark.read",
}
"""What needs each extra: it works, or raises an error of ours that names the extra."""

PROVIDES: Final = {
    "": set(),
    "cli": set(),
    "iceberg": {"iceberg", "fsspec", "remote"},  # PyIceberg needs the libraries of these
    "fsspec": {"fsspec"},
    "arrow": {"arrow", "listing"},  # one library
    "api": {"api"},
    "server": {"server", "api"},
    "remote": {"remote"},
    "polars": {"polars", "fsspec"},
    "listing": {"listing", "arrow"},
    "sql": {"sql", "fsspec", "arrow", "listing"},
    "aws": {"aws", "remote"},  # botocore has the library of the HTTP client
    "spark": {"spark", "listing", "arrow"},
    "connect": {"spark", "listing", "arrow"},
    "all": set(PROBES),
}
"""The probes that work with each extra."""
LARGE: Final = ("spark", "connect", "all")
FOR_DEVELOPERS: Final = {"clients", "dev"}

PROGRAM: Final = """
import json, sys
from graveler.errors import GravelerError
said = {}
for name, probe in json.loads(sys.argv[1]).items():
    try:
        exec(probe, {})
        said[name] = ""
    except GravelerError as error:
        said[name] = str(error)
print(json.dumps(said))
"""


@pytest.mark.parametrize(
    "extra",
    [*(each for each in PROVIDES if each not in LARGE), *(pytest.param(each, marks=pytest.mark.ci) for each in LARGE)],
)
def test_a_missing_extra_is_named_in_one_line(extra: str, wheel: Path, plain: Environment, tmp_path: Path) -> None:
    environment = install(wheel, tmp_path / "environment", extra) if extra else plain
    done = environment.run("python", "-c", PROGRAM, json.dumps(PROBES))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for name, sentence in said.items():
        if name in PROVIDES[extra]:
            assert sentence == "", name
        else:
            assert re.search(
                rf"needs the package '\w+', which is not installed; pip install 'graveler\[{name}\]'$", sentence
            )
    version = environment.run("graveler", "--version")
    assert (version.returncode, version.stderr) == (ExitCode.OK, "")


def test_the_list_of_extras_is_whole() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) - FOR_DEVELOPERS == set(PROVIDES) - {""}


def test_the_plain_installation_has_a_working_command(plain: Environment, tmp_path: Path) -> None:
    for line in (
        "graveler init",
        "graveler repo create lakefs://sales",
        "echo hello | graveler put - lakefs://sales/main/a.txt",
        "graveler commit lakefs://sales/main -m 'A greeting'",
        "graveler cat lakefs://sales/main/a.txt",
    ):
        done = plain.run(shell=line, within=tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert done.stdout == "hello\n"


def test_a_verb_without_its_extra_says_so(plain: Environment, tmp_path: Path) -> None:
    done = plain.run("graveler", "serve", "--port", "0", within=tmp_path)
    assert done.returncode == ExitCode.UNAVAILABLE
    assert (
        done.stderr
        == "error: graveler serve needs the package 'granian', which is not installed; pip install 'graveler[server]'\n"
    )
    assert list(tmp_path.iterdir()) == [], "nothing was begun"
    variables = "GRAVELER_ACCESS_KEY_ID=key GRAVELER_SECRET_ACCESS_KEY=secret"
    done = plain.run(shell=f"{variables} graveler --endpoint http://127.0.0.1:1 repo list", within=tmp_path)
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "pip install 'graveler[remote]'" in done.stderr


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with ZipFile(wheel) as packed:
        names = packed.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        headers = HeaderParser().parsestr(packed.read(metadata).decode())
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert headers["License-Expression"] == "Apache-2.0"
    classifiers = headers.get_all("Classifier") or []
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)} <= set(classifiers)
    assert not any(name.startswith(("tests/", "infra/", "functions/")) for name in names)
