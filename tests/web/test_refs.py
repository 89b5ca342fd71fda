"""Repositories, branches, tags and the reference log."""

import re

import pytest
from playwright.sync_api import expect

from tests.web.conftest import Visit


@pytest.fixture
def repository(request: pytest.FixtureRequest, visit: Visit) -> str:
    """A repository of this test, with two commits on ``main`` and a branch ``side``."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:60].strip("-")
    visit.call("POST", "/repositories", {"name": name, "storage_namespace": f"local://{name}", "sample_data": True})
    visit.call("POST", f"/repositories/{name}/branches", {"name": "side", "source": "main"})
    return name


def test_a_repository_is_created_with_a_namespace_that_follows_its_name(visit: Visit) -> None:
    page = visit.go("/repositories")
    page.get_by_role("button", name="New repository").click()
    page.get_by_label("Name", exact=True).fill("orders")
    expect(page.get_by_label("Storage namespace")).to_have_value("local://orders")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Ref: main").wait_for()
    expect(page).to_have_url(re.compile("/repositories/orders/objects"))
    page = visit.go("/repositories")
    page.get_by_role("button", name="New repository").click()
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("orders")


def test_repositories_are_searched_by_name_and_metadata(visit: Visit) -> None:
    page = visit.go("/repositories")
    page.keyboard.press("/")
    page.keyboard.type("plant 4")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="sensors").wait_for()
    expect(page).to_have_url(re.compile(r"search=plant\+4"))
    page.get_by_label("Search repositories").fill("nowhere")
    expect(page.locator("main")).to_contain_text("No repository")


def test_a_branch_is_created_renamed_deleted_and_brought_back_by_keyboard(visit: Visit, repository: str) -> None:
    page = visit.go(f"/repositories/{repository}/branches?ref=main")
    page.get_by_role("button", name="New branch").focus()
    page.keyboard.press("Enter")
    page.keyboard.type("trial")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="trial").wait_for()
    page.get_by_role("link", name="trial").focus()
    page.keyboard.press("x")
    page.get_by_role("button", name="Rename").focus()
    page.keyboard.press("Enter")
    page.get_by_label("New name").fill("attempt")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="attempt").wait_for()
    commit = visit.call("GET", f"/repositories/{repository}/branches/attempt")["commit_id"]
    page.get_by_role("link", name="attempt").focus()
    page.keyboard.press("x")
    page.get_by_role("button", name="Delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="attempt")).to_have_count(0)
    page.get_by_role("button", name="Undo").focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="attempt").wait_for()
    assert visit.call("GET", f"/repositories/{repository}/branches/attempt")["commit_id"] == commit


def test_a_branch_that_moved_is_not_deleted(visit: Visit, repository: str) -> None:
    page = visit.go(f"/repositories/{repository}/branches?ref=main")
    page.get_by_label("Select side").check()
    visit.call("PUT", f"/repositories/{repository}/branches/side/hard_reset?ref=main~1")
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("alert")).to_contain_text("branch_moved")
    assert visit.call("GET", f"/repositories/{repository}/branches/side")


def test_branches_say_how_far_they_are_from_the_default_one(visit: Visit) -> None:
    page = visit.go("/repositories/sales/branches")
    row = page.locator("tr", has=page.get_by_role("link", name="fix", exact=True))
    expect(row).to_contain_text("−1 +2")
    row = page.locator("tr", has=page.get_by_role("link", name="merged", exact=True))
    expect(row.locator(".badge")).to_have_text("merged")
    row = page.locator("tr", has=page.get_by_role("link", name="draft", exact=True))
    expect(row.locator(".badge")).to_have_text("~ uncommitted")


def test_deleting_uncommitted_changes_asks(visit: Visit) -> None:
    page = visit.go("/repositories/sales/branches")
    page.get_by_label("Select draft").check()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("uncommitted changes")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="draft", exact=True).wait_for()


def test_a_tag_is_created_and_deleted(visit: Visit, repository: str) -> None:
    page = visit.go(f"/repositories/{repository}/tags?ref=main")
    expect(page.locator("main")).to_contain_text("This repository has no tags")
    page.get_by_role("button", name="New tag").click()
    page.get_by_label("Name").fill("v1")
    page.get_by_label("At:").fill("main~1")
    page.get_by_role("button", name="Create").click()
    page.get_by_label("Select v1").check()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("link", name="v1").wait_for()


def test_a_branch_is_moved_back_by_its_reference_log(visit: Visit, repository: str) -> None:
    before = visit.call("GET", f"/repositories/{repository}/branches/main")["commit_id"]
    page = visit.go(f"/repositories/{repository}/reflog?ref=main")
    page.get_by_role("button", name="Move back").first.click()
    page.get_by_role("button", name="Move the branch").click()
    expect(page.locator("tbody tr").first).to_contain_text("reset")
    assert visit.call("GET", f"/repositories/{repository}/branches/main")["commit_id"] != before
    page.get_by_role("button", name=f"Move back to {before[:7]}").first.click()
    page.get_by_role("button", name="Move the branch").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert visit.call("GET", f"/repositories/{repository}/branches/main")["commit_id"] == before
