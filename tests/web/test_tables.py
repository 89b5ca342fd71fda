"""Tables in objects: their rows, and the rows in which two versions differ."""

import re
from collections.abc import Callable
from io import BytesIO

import pyarrow
import pyarrow.parquet
import pytest
from playwright.sync_api import expect

from tests.web.conftest import Visit

Put = Callable[[str, bytes], None]


@pytest.fixture
def repository(request: pytest.FixtureRequest, visit: Visit) -> str:
    """A repository of this test, with nothing in it."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:60].strip("-")
    visit.call("POST", "/repositories", {"name": name, "storage_namespace": f"local://{name}"})
    return name


@pytest.fixture
def put(visit: Visit, repository: str) -> Put:
    """Writes an object to ``main`` of the test's repository."""

    def write(path: str, contents: bytes) -> None:
        target = f"/api/v1/repositories/{repository}/branches/main/objects?path={path}"
        answer = visit.site.ask("POST", target, contents, {"content-type": "application/octet-stream"})
        assert answer.status == 201, answer.body

    return write


def parquet(columns: dict[str, list[object]], codec: str = "snappy") -> bytes:
    """Return a Parquet file of these columns."""
    buffer = BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer, compression=codec)
    return buffer.getvalue()


@pytest.mark.parametrize("codec", ["brotli", "lz4"])
def test_columns_of_other_codecs_are_read_and_counted(visit: Visit, repository: str, put: Put, codec: str) -> None:
    put("t.parquet", parquet({"id": list(range(300)), "city": ["Graz"] * 300}, codec))
    page = visit.go(f"/repositories/{repository}/objects?ref=main")
    row = page.locator("tbody tr", has=page.get_by_role("link", name="t.parquet"))
    expect(row).not_to_contain_text("300 rows")
    row.get_by_role("link", name="t.parquet").click()
    expect(page.get_by_role("table").first).to_contain_text("Graz")
    page.go_back()
    expect(row).to_contain_text("300 rows")
