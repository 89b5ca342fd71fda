"""Objects, history, changes and merges."""

import re

import pytest
from playwright.sync_api import Dialog, expect

from tests.web.conftest import Visit


@pytest.fixture
def conflict(request: pytest.FixtureRequest, visit: Visit) -> tuple[str, str]:
    """A branch of this test at ``main`` of ``sales``, and one at ``fix``: merging the second into the first has a conflict."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    branches = (f"{name}-into", f"{name}-from")
    for branch, source in zip(branches, ("main", "fix"), strict=True):
        visit.call("POST", "/repositories/sales/branches", {"name": branch, "source": source})
    return branches


def test_a_parquet_file_is_read_by_its_ranges(visit: Visit) -> None:
    page = visit.go("/repositories/sales/object?ref=main&path=events/day=2026-11-03/part-0000.parquet")
    expect(page.get_by_role("table").first).to_contain_text("amount")
    expect(page.get_by_role("table").first).to_contain_text("Wien")
    page.get_by_role("link", name="Schema").click()
    expect(page.locator("main")).to_contain_text("INT64")


def test_a_table_of_text_is_shown_with_its_history_and_details(visit: Visit) -> None:
    page = visit.go("/repositories/sales/object?ref=main&path=prices.csv")
    expect(page.get_by_role("cell", name="220")).to_be_visible()
    page.get_by_role("link", name="History").last.click()
    expect(page.locator("main")).to_contain_text("Load prices")
    expect(page.locator("main")).to_contain_text("Describe the events")
    page.get_by_role("link", name="Details").click()
    expect(page.locator("main")).to_contain_text("33 B (33 bytes)")


def test_nothing_in_an_object_runs(visit: Visit) -> None:
    dialogs: list[str] = []

    def note(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    visit.page.on("dialog", note)
    page = visit.go("/repositories/sales/object?ref=main&path=pictures/logo.svg")
    expect(page.locator("main img")).to_be_visible()
    page = visit.go("/repositories/sales/objects?ref=main")
    page.get_by_role("heading", name="Events").wait_for()
    expect(page.locator("main a[href^='javascript:']")).to_have_count(0)
    page = visit.go("/repositories/strange/commits?ref=main")
    page.get_by_text("<img src=x onerror=alert(1)>").first.wait_for()
    assert "taken over" not in page.title()
    assert not dialogs


def test_a_folder_is_filtered_by_the_server(visit: Visit) -> None:
    page = visit.go("/repositories/sales/objects?ref=main&path=events/day=2026-11-02/")
    page.keyboard.press("/")
    page.keyboard.type("part-000")
    expect(page.locator("tbody tr")).to_have_count(10)
    page.keyboard.press("Backspace")
    expect(page.locator("tbody tr")).to_have_count(12)


def test_the_log_leads_to_a_commit_and_its_changes(visit: Visit) -> None:
    page = visit.go("/repositories/sales/commits?ref=main")
    page.get_by_role("link", name="Load hour 17").first.click()
    page.get_by_role("heading", name="Load hour 17").wait_for()
    expect(page.locator("main")).to_contain_text("events/")
    page.get_by_role("link", name="Browse").click()
    page.get_by_role("link", name="events/", exact=True).wait_for()


def test_a_merge_with_a_conflict_is_decided_and_merged(visit: Visit, conflict: tuple[str, str]) -> None:
    into, source = conflict
    page = visit.go(f"/repositories/sales/compare?ref={into}&compare={source}")
    expect(page.get_by_role("button", name="Decide 1 conflict")).to_be_disabled()
    page.get_by_role("group", name="prices.csv").get_by_label(f"take {source}").check()
    page.get_by_role("button", name=f"Merge into {into}").click()
    page.get_by_role("heading", name=re.compile("Merge")).wait_for()
    answer = visit.site.ask("GET", f"/api/v1/repositories/sales/refs/{into}/objects?path=prices.csv")
    assert b"2,250" in answer.body


def test_what_was_looked_at_is_what_is_merged(visit: Visit, conflict: tuple[str, str]) -> None:
    into, source = conflict
    page = visit.go(f"/repositories/sales/compare?ref={into}&compare={source}")
    page.get_by_role("group", name="prices.csv").get_by_label(f"keep {into}").check()
    visit.call("PUT", f"/repositories/sales/branches/{into}/hard_reset?ref=main~1")
    page.get_by_role("button", name=f"Merge into {into}").click()
    expect(page.locator("main")).to_contain_text("moved since you looked")
    page.get_by_role("button", name="Look again").click()
    expect(page.locator("main")).not_to_contain_text("moved since you looked")


def test_uncommitted_changes_are_looked_at_and_committed(visit: Visit) -> None:
    visit.call("POST", "/repositories/sales/branches", {"name": "to-commit", "source": "main"})
    visit.site.ask(
        "POST",
        "/api/v1/repositories/sales/branches/to-commit/objects?path=notes.txt",
        b"looked at\n",
        {"content-type": "application/octet-stream"},
    )
    page = visit.go("/repositories/sales/uncommitted?ref=to-commit")
    expect(page.locator("main")).to_contain_text("notes.txt")
    page.get_by_label("Message").fill("Take notes")
    page.get_by_role("button", name="Commit to to-commit").click()
    page.get_by_role("heading", name="Take notes").wait_for()
    page = visit.go("/repositories/sales/objects?ref=to-commit")
    expect(page.get_by_role("link", name="~ uncommitted")).to_have_count(0)
