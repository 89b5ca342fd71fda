"""The table of promises, lines and tests fits the code, and the document has all of it."""

import ast
from pathlib import Path

import pytest

from tests.mutations import MUTATIONS, ON_SPARK, PACKAGE, ROOT, Mutation, is_sparks, missing

DOCUMENT = (ROOT / "docs/faults.md").read_text()

each = pytest.mark.parametrize("mutation", MUTATIONS, ids=[f"{m.promise} {m.rule}" for m in MUTATIONS])


@each
def test_the_line_is_there_and_what_takes_its_place_is_python(mutation: Mutation) -> None:
    source = (PACKAGE / mutation.file).read_text()
    assert mutation.line in source
    ast.parse(source.replace(mutation.line, mutation.instead))


@each
def test_the_test_is_there_and_the_document_names_both(mutation: Mutation) -> None:
    file, _, rest = mutation.test.partition("::")
    name = rest.partition("[")[0]
    assert f"def {name}(" in (Path(__file__).parent / file).read_text()
    assert f"| {mutation.promise} | {mutation.rule} | `{mutation.file}` | `{name}" in DOCUMENT


NEEDS_SPARK = pytest.mark.skipif(not ON_SPARK.exists(), reason="`make spark-tools` makes their environment")


@pytest.mark.parametrize("sparks", [False, pytest.param(True, marks=[pytest.mark.ci, NEEDS_SPARK])])
def test_the_tests_are_there_with_their_parameters(sparks: bool) -> None:
    assert missing(sorted({mutation.test for mutation in MUTATIONS if is_sparks(mutation.test) == sparks})) == ""


def test_every_promise_is_kept_by_some_line() -> None:
    assert {mutation.promise for mutation in MUTATIONS} == {
        "C1",
        "C2",
        "C3",
        "C4",
        "C5",
        "C6",
        "F1",
        "F5",
        "bytes",
        "ends",
        "spark",
        "ingest",
        "turns",
        "strangers",
        "names",
        "later",
        "rules",
        "tables",
    }
