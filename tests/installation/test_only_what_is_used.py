"""Nobody loads the libraries of a face that he does not use, nor the face."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

OTHERS = {
    *("adbc_driver_manager", "duckdb", "fsspec", "numpy", "pandas", "polars", "pyarrow", "sqlglot"),
    *(f"graveler.{face}" for face in ("arrow", "duckdb", "filesystem", "polars", "spark", "sql")),
}

LIBRARY = """
import sys
from pathlib import Path
import graveler

folder = Path(sys.argv[1])
with graveler.create(folder, user="me") as lake:
    main = lake.repository("sales").create().branch("main")
    main.object("a.txt").upload("hello")
    main.commit("A greeting")
with graveler.open(folder, user="me") as lake:
    main = lake.repository("sales").branch("main")
    assert main.object("a.txt").stat().size == 5
    assert [found.path for found in main.objects()] == ["a.txt"]
"""
COMMAND = """
import sys
from graveler.cli.main import main

assert main(sys.argv[1:]) == 0
"""


def loaded(program: str, *arguments: str, **environment: str) -> set[str]:
    """Return which of :data:`OTHERS` a process loads that runs this program."""
    shown = f"\nprint(*({OTHERS!r} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program + shown, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_the_library_loads_no_other_face(tmp_path: Path) -> None:
    assert loaded(LIBRARY, str(tmp_path / "lake")) == set()


def test_commands_load_no_other_face(tmp_path: Path) -> None:
    lake = {"GRAVELER_LAKE": str(tmp_path / "lake")}
    (tmp_path / "a.txt").write_text("hello")
    for arguments in (
        ("init", str(tmp_path / "lake")),
        ("repo", "create", "sales"),
        ("put", str(tmp_path / "a.txt"), "lakefs://sales/main/a.txt"),
        ("commit", "lakefs://sales/main", "-m", "A greeting"),
        ("stat", "lakefs://sales/main/a.txt"),
        ("ls", "lakefs://sales/main/"),
    ):
        assert loaded(COMMAND, *arguments, **lake) == set(), arguments


@pytest.mark.parametrize("verb", ["commit", "diff", "ingest", "maintain", "merge", "operate", "read", "write"])
def test_a_function_loads_no_other_face(verb: str) -> None:
    handler = Path(__file__).parents[2] / "functions" / verb / "handler.py"
    places = {
        "AWS_REGION": "eu-central-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "GRAVELER_OBJECTS": "s3://lake",
        "GRAVELER_TABLES": "dynamodb://lake",
    }
    assert loaded("import runpy, sys\nrunpy.run_path(sys.argv[1])", str(handler), **places) == set()
