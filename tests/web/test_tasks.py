"""Tasks of somebody who sees the page for the first time, each by what is in sight."""

import re
from secrets import token_hex

import pytest
from playwright.sync_api import expect

from tests.web.conftest import Visit


@pytest.fixture
def repository(visit: Visit) -> str:
    """A repository of this test, with a table in its first commit."""
    name = f"task-{token_hex(4)}"
    visit.call("POST", "/repositories", {"name": name, "storage_namespace": f"local://{name}"})
    commit(visit, name, "main", "Load prices", "events/prices.csv", b"id,price\n1,100\n")
    return name


def commit(visit: Visit, repository: str, branch: str, message: str, path: str, contents: bytes) -> None:
    base = f"/repositories/{repository}/branches/{branch}"
    answer = visit.site.ask("POST", f"/api/v1{base}/objects?path={path}", contents)
    assert answer.status == 201, answer.body
    visit.call("POST", f"{base}/commits", {"message": message})


def test_what_changed_since_a_day_is_seen_and_taken_back(visit: Visit, repository: str) -> None:
    commit(visit, repository, "main", "Raise prices", "events/prices.csv", b"id,price\n1,900\n")
    commit(visit, repository, "main", "Write notes", "notes.txt", b"kept\n")
    commit(visit, repository, "main", "Add a day", "events/day.csv", b"id\n")
    page = visit.go("/repositories")
    page.get_by_role("link", name=repository).click()
    page.get_by_role("link", name="events/", exact=True).click()
    page.get_by_role("main").get_by_role("link", name="History").click()
    page.get_by_label("Since").fill("2026-01-05")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("since=2026-01-05"))
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_label("Select all that are loaded").check()
    page.locator("tbody input[type=checkbox]").last.uncheck()
    page.get_by_role("link", name="Revert 2 selected").click()
    page.get_by_role("button", name="Revert 2 commits on main").click()
    page.get_by_role("heading", name="History").wait_for()
    listing = visit.call("GET", f"/repositories/{repository}/refs/main/objects/ls")["results"]
    assert [(entry["path"], entry["size_bytes"]) for entry in listing] == [("events/prices.csv", 15), ("notes.txt", 5)]


def test_a_table_as_it_was_is_read_by_pandas(visit: Visit) -> None:
    page = visit.go("/repositories/sales/object?ref=main&path=prices.csv")
    page.get_by_text("as of:").click()
    page.get_by_role("button", name="A day ago").click()
    page.locator(".note").wait_for()
    page.get_by_text("Use it").click()
    page.get_by_role("button", name="pandas").click()
    expect(page.locator(".use-it")).to_contain_text(
        re.compile(r'read_csv\("graveler://sales/main@\{[^}]+Z\}/prices\.csv')
    )


def test_a_branch_that_was_deleted_is_found_and_brought_back(visit: Visit, repository: str) -> None:
    visit.call("POST", f"/repositories/{repository}/branches", {"name": "trial", "source": "main"})
    commit(visit, repository, "trial", "Try", "trial.txt", b"x")
    before = visit.call("GET", f"/repositories/{repository}/branches/trial")["commit_id"]
    visit.call("DELETE", f"/repositories/{repository}/branches/trial")
    page = visit.go(f"/repositories/{repository}/branches")
    page.get_by_label("Search branches").fill("trial")
    page.get_by_role("link", name="its reference log").click()
    expect(page.locator("main")).to_contain_text("This branch is deleted.")
    page.get_by_role("button", name=f"Bring back at {before[:7]}").click()
    page.get_by_role("button", name="Create the branch").click()
    expect(page.get_by_text("This branch is deleted.")).to_have_count(0)
    assert visit.call("GET", f"/repositories/{repository}/branches/trial")["commit_id"] == before


def test_branches_that_can_go_are_selected(visit: Visit, repository: str) -> None:
    for name in ("done", "open", "dirty"):
        visit.call("POST", f"/repositories/{repository}/branches", {"name": name, "source": "main"})
    commit(visit, repository, "main", "Go on", "more.txt", b"x")
    commit(visit, repository, "open", "Work", "work.txt", b"x")
    written = visit.site.ask("POST", f"/api/v1/repositories/{repository}/branches/dirty/objects?path=a.txt", b"x")
    assert written.status == 201
    page = visit.go(f"/repositories/{repository}/branches")
    page.get_by_role("button", name="Select merged").click()
    expect(page.get_by_label("Select done")).to_be_checked()
    expect(page.locator("tbody input:checked")).to_have_count(1)
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="done", exact=True)).to_have_count(0)


def test_a_file_is_proposed_on_a_branch_and_merged(visit: Visit, repository: str) -> None:
    page = visit.go(f"/repositories/{repository}/objects?ref=main")
    page.get_by_role("button", name="Branch from here").click()
    page.get_by_label("Name", exact=True).fill("proposal")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Ref: proposal").wait_for()
    page.locator("input[type=file]").set_input_files({"name": "new.csv", "mimeType": "text/csv", "buffer": b"a\n1\n"})
    page.get_by_role("link", name="new.csv").wait_for()
    sections = page.get_by_role("navigation", name="Sections")
    sections.get_by_role("link", name="Changes").click()
    page.get_by_label("Message").fill("Add new.csv")
    page.get_by_role("button", name="Commit to proposal").click()
    page.get_by_role("heading", name="Add new.csv").wait_for()
    sections.get_by_role("link", name="Compare").click()
    page.get_by_role("link", name="Compare proposal with main").click()
    page.get_by_role("button", name="Merge into main").click()
    page.get_by_role("heading", name="Merge").wait_for()
    assert visit.call("GET", f"/repositories/{repository}/refs/main/objects/stat?path=new.csv")["size_bytes"] == 4


def test_two_tags_are_compared_the_older_one_first(visit: Visit, repository: str) -> None:
    visit.call("POST", f"/repositories/{repository}/tags", {"id": "z-first", "ref": "main~1"})
    visit.call("POST", f"/repositories/{repository}/tags", {"id": "a-second", "ref": "main"})
    page = visit.go(f"/repositories/{repository}/tags")
    for tag in ("a-second", "z-first"):
        page.get_by_label(f"Select {tag}").check()
    page.get_by_role("link", name="Compare 2 selected").click()
    expect(page.locator("main")).to_contain_text("+1 object added")


def test_who_is_signed_in_and_what_they_may_do_is_said(visit: Visit) -> None:
    page = visit.go("/repositories")
    page.locator(".user summary").click()
    expect(page.locator(".user")).to_contain_text("Admin: changes everything, also repositories, settings and keys")
