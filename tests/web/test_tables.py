"""Tables in objects: their rows, and the rows in which two versions differ."""

import re
from collections.abc import Callable
from io import BytesIO

import pyarrow
import pyarrow.parquet
import pytest
from playwright.sync_api import Route, expect

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


@pytest.fixture
def commit(visit: Visit, repository: str) -> Callable[[str], str]:
    """Commits what was written, and returns the commit's ID."""

    def write(message: str) -> str:
        body = {"message": message}
        return str(visit.call("POST", f"/repositories/{repository}/branches/main/commits", body)["id"])

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


def test_rows_of_a_commit_are_compared_by_keys_that_can_be_changed(
    visit: Visit, repository: str, put: Put, commit: Callable[[str], str]
) -> None:
    put("t.csv", b"id,price,name\n1,100,a\n2,200,\n3,300,c\n")
    commit("First")
    put("t.csv", b"id,price,name,by\n1,100,a,\n2,250,b,<script>alert(1)</script>\n4,1,,x\n")
    number = commit("Second")
    page = visit.go(f"/repositories/{repository}/commits/{number}?file=t.csv")
    rows = page.locator(".row-change")
    expect(rows.get_by_role("status")).to_contain_text("−1 row removed~1 row changed+1 row added")
    expect(rows).to_contain_text("column by VARCHAR")
    expect(rows.locator("tr.changed")).to_contain_text("200 → 250")
    expect(rows.locator("tr.changed")).to_contain_text("<script>alert(1)</script>")
    # By keyboard alone: open the keys, and take the only one away.
    rows.get_by_text("Keys: id").focus()
    page.keyboard.press("Enter")
    rows.get_by_role("checkbox", name="id").focus()
    page.keyboard.press("Space")
    expect(rows.get_by_role("status")).to_contain_text("−2 rows removed~0 rows changed+2 rows added")
    expect(page).to_have_url(re.compile("keys=%2C"))
    page = visit.go(f"/repositories/{repository}/commits/{number}?file=t.csv&keys=price")
    expect(rows.get_by_role("status")).to_contain_text("−2 rows removed~0 rows changed+2 rows added")
    page.get_by_role("radio", name="Lines").check()
    expect(page.get_by_role("table", name="Lines that differ")).to_contain_text("3,300,c")
    expect(page).to_have_url(re.compile("rows=0"))


def test_keys_that_do_not_do_are_said(visit: Visit, repository: str, put: Put, commit: Callable[[str], str]) -> None:
    put("t.csv", b"id,a\n1,x\n2,x\n")
    commit("First")
    put("t.csv", b"id,a\n1,x\n1,y\n")
    number = commit("Second")
    page = visit.go(f"/repositories/{repository}/commits/{number}?file=t.csv&keys=id")
    expect(page.get_by_role("alert")).to_contain_text("After: several rows have the key id = 1.")
    page = visit.go(f"/repositories/{repository}/commits/{number}?file=t.csv&keys=b")
    expect(page.get_by_role("alert")).to_contain_text('Before: no column "b"')
    put("t.csv", b"id,a\n1,x,3\n")
    page = visit.go(f"/repositories/{repository}/uncommitted?ref=main&file=t.csv")
    expect(page.get_by_role("alert")).to_contain_text("After: line 2 has 3 values, and the first one names 2 columns.")


def test_versions_in_the_history_of_an_object_are_compared(
    visit: Visit, repository: str, put: Put, commit: Callable[[str], str]
) -> None:
    numbers: list[object] = list(range(300))
    for codec, amounts in (("brotli", [7.0] * 300), ("zstd", [7.0] * 299 + [8.5])):
        put("t.parquet", parquet({"id": numbers, "amount": list(amounts)}, codec))
        commit(codec)
    page = visit.go(f"/repositories/{repository}/object?ref=main&path=t.parquet&tab=history")
    page.get_by_role("table").get_by_role("link", name="Changes").focus()
    page.keyboard.press("Enter")
    rows = page.locator(".row-change")
    expect(rows.get_by_role("status")).to_contain_text("~1 row changed")
    expect(rows.locator("tr.changed")).to_contain_text("7 → 8.5")


def test_reading_can_be_cancelled(visit: Visit, repository: str, put: Put, commit: Callable[[str], str]) -> None:
    put("t.csv", b"id\n1\n")
    commit("First")
    put("t.csv", b"id\n2\n")
    number = commit("Second")
    # A store that does not answer: requests for ranges of bytes wait.
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "range" in route.request.headers:
            held.append(route)
        else:
            route.fallback()

    visit.page.route("**", hold)
    visit.page.goto(f"{visit.origin}/repositories/{repository}/commits/{number}?file=t.csv")
    expect(visit.page.locator(".row-change")).to_contain_text("Read 0 B of 10 B")
    visit.page.get_by_role("button", name="Cancel").click()
    visit.page.unroute("**")
    visit.page.get_by_role("button", name="Compare rows").click()
    expect(visit.page.locator(".row-change").get_by_role("status")).to_contain_text("+1 row added")
    assert len(held) == 2


def test_large_tables_are_read_when_asked_for_and_larger_ones_by_the_command(
    visit: Visit, repository: str, put: Put, commit: Callable[[str], str]
) -> None:
    line = b"x" * 990
    put("large.csv", b"id,a\n" + b"".join(b"%d,%s\n" % (number, line) for number in range(17_000)))
    put("huge.csv", b"id\n1\n")
    commit("First")
    put("large.csv", b"id,a\n1,x\n")
    put("huge.csv", b"id\n" + b"1\n" * (33 << 20))
    number = commit("Second")
    page = visit.go(f"/repositories/{repository}/commits/{number}?file=large.csv")
    page.get_by_role("button", name="Compare rows").click()
    expect(page.locator(".row-change")).to_contain_text("16,999 rows removed")
    expect(page).to_have_url(re.compile("rows=1"))
    page = visit.go(f"/repositories/{repository}/commits/{number}?file=huge.csv&keys=id")
    expect(page.locator("main")).to_contain_text(
        "66.0 MiB on one side; the page compares rows of up to 64.0 MiB a side."
    )
    expect(page.locator(".row-change .code")).to_contain_text("graveler diff --rows huge.csv --key id lakefs://")
    expect(page.locator(".row-change").get_by_role("button", name="Copy")).to_be_visible()
