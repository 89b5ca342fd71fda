"""The frame: refs, times, permanent links, and going anywhere by keys."""

import re

from playwright.sync_api import expect

from tests.web.conftest import Visit


def test_a_ref_is_chosen_by_its_name(visit: Visit) -> None:
    page = visit.go("/repositories/sales/objects?ref=main&path=events/")
    page.get_by_role("button", name="Ref: main").click()
    page.get_by_role("option", name="fix").click()
    page.get_by_role("button", name="Ref: fix").wait_for()
    expect(page).to_have_url(re.compile(r"ref=fix&path=events"))


def test_an_expression_is_resolved_while_it_is_typed(visit: Visit) -> None:
    page = visit.go("/repositories/sales/objects?ref=main")
    page.keyboard.press("b")
    page.keyboard.type("main~2")
    expect(page.get_by_role("status").filter(has_text="resolves to")).to_contain_text("by etl")
    page.get_by_role("combobox").fill("no-such-ref")
    expect(page.locator(".chooser-status")).to_contain_text("no branch, tag or commit has this name")
    page.get_by_role("combobox").fill("main~2")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Ref: main~2").wait_for()
    visit.settle()


def test_a_branch_is_looked_at_as_of_a_time_and_back(visit: Visit) -> None:
    page = visit.go("/repositories/sales/objects?ref=main&path=events/")
    page.get_by_text("as of:").click()
    page.get_by_role("button", name="A day ago").click()
    expect(page.locator(".note")).to_contain_text("You look at main as of")
    expect(page).to_have_url(re.compile(r"ref=main%40%7B"))
    page.get_by_role("button", name="Back to now").click()
    expect(page.locator(".note")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"ref=main&"))


def test_y_shows_the_commit_for_good(visit: Visit) -> None:
    page = visit.go("/repositories/sales/objects?ref=main&path=events/")
    commit = visit.call("GET", "/repositories/sales/branches/main")["commit_id"]
    page.get_by_text("Copy permanent link").wait_for()
    page.keyboard.press("y")
    expect(page).to_have_url(re.compile(f"ref={commit}&path=events"))


def test_marks_say_what_a_ref_is(visit: Visit) -> None:
    page = visit.go("/repositories/sales/objects?ref=draft")
    page.get_by_role("link", name="~ uncommitted").wait_for()
    page = visit.go("/repositories/sales/objects?ref=release-1")
    page.get_by_text("protected", exact=True).wait_for()


def test_a_ref_that_is_no_more_is_named(visit: Visit) -> None:
    page = visit.go("/repositories/sales/commits?ref=gone")
    expect(page.get_by_role("alert")).to_contain_text("no branch, tag or commit has this name")


def test_the_keyboard_alone_leads_to_an_object_s_folder_and_back(visit: Visit) -> None:
    page = visit.go("/repositories")
    press = page.keyboard.press
    expect(page.get_by_role("link", name="sales")).to_be_visible()
    press("j")
    press("Enter")
    page.get_by_role("link", name="events/", exact=True).wait_for()
    press("t")
    page.keyboard.type("events/day=2026-11-03")
    page.get_by_role("option", name="events/day=2026-11-03/").wait_for()
    press("Enter")
    page.get_by_role("link", name="part-0000.parquet").wait_for()
    press("u")
    page.get_by_role("link", name="day=2026-11-02/").wait_for()
    press("g")
    press("h")
    page.get_by_text("Load prices").first.wait_for()
    press("g")
    press("r")
    page.get_by_role("heading", name="Repositories").wait_for()


def test_the_box_goes_to_a_repository_a_page_and_a_commit(visit: Visit) -> None:
    commit = visit.call("GET", "/repositories/sales/branches/main")["commit_id"]
    page = visit.go("/repositories")
    page.keyboard.press("Control+k")
    page.keyboard.type("sal")
    page.get_by_role("option", name="sales").click()
    page.get_by_role("button", name="Ref: main").wait_for()
    page.keyboard.press("Control+k")
    page.keyboard.type("bran")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Branches").wait_for()
    page.keyboard.press("Control+k")
    page.keyboard.type(commit[:12])
    page.get_by_role("option", name=commit[:12]).wait_for()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/commits/{commit[:12]}"))


def test_keys_do_nothing_in_fields_and_can_be_turned_off(visit: Visit) -> None:
    page = visit.go("/repositories/sales/branches")
    page.get_by_label("Search branches").fill("b?")
    page.keyboard.type("b")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator("h1").click()
    page.keyboard.press("?")
    page.get_by_label("Single keys do something").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("b")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(1)
