"""Signing in and out."""

import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.server.support import KEY_ID, SECRET, Running
from tests.web.conftest import Visit, open_visit

Key = dict[str, str]
CreateKey = Callable[[str, str], Key]


@pytest.fixture
def create_key(site: Running) -> CreateKey:
    """Creates a key for a name and a role."""

    def create(name: str, role: str) -> Key:
        command = [sys.executable, "-m", "graveler.cli", "keys", "create", name, "--role", role, "--json"]
        done = subprocess.run([*command, "--lake", site.lake], capture_output=True, text=True, check=True)
        key: Key = json.loads(done.stdout)
        return key

    return create


def enter_key(page: Page, key_id: str = KEY_ID, secret: str = SECRET) -> None:
    """Fill in the form, and send it by Enter."""
    page.get_by_label("Access key ID").fill(key_id)
    page.get_by_label("Secret access key").fill(secret)
    page.keyboard.press("Enter")


def test_a_link_leads_through_the_sign_in_to_where_it_points(stranger: Visit) -> None:
    page = stranger.go("/repositories/sales/objects?ref=draft&path=events/")
    expect(page).to_have_url(re.compile("/auth/login"))
    enter_key(page)
    page.get_by_role("link", name="day=2026-11-02/").wait_for()
    expect(page).to_have_url(re.compile(r"/repositories/sales/objects\?ref=draft"))


def test_a_wrong_secret_is_named_and_the_form_stays(stranger: Visit) -> None:
    page = stranger.go("/auth/login")
    page.get_by_label("Access key ID").fill(KEY_ID)
    page.get_by_label("Secret access key").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("error authenticating request")
    enter_key(page)
    page.get_by_role("heading", name="Repositories").wait_for()


def test_next_leads_to_no_other_origin(stranger: Visit) -> None:
    for next_address in ("https://example.org/", "//example.org/", "/\\example.org/", "javascript:alert(1)"):
        stranger.page.context.clear_cookies()
        page = stranger.go(f"/auth/login?next={next_address}")
        enter_key(page)
        page.get_by_role("heading", name="Repositories").wait_for()
        assert page.url.startswith(stranger.origin), next_address


def test_a_session_that_ends_leaves_the_page_where_it_is(visit: Visit) -> None:
    page = visit.go("/repositories/sales/objects?ref=main")
    page.wait_for_load_state("networkidle")  # or a request of the page as it is would ask for the key
    page.context.clear_cookies()
    page.get_by_role("link", name="events/", exact=True).click()
    page.get_by_role("dialog", name="Sign in").wait_for()
    enter_key(page)
    page.get_by_role("link", name="day=2026-11-02/").wait_for()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"path=events"))


def test_signing_out_ends_all_tabs_and_the_session_on_the_server(visit: Visit) -> None:
    page = visit.go("/repositories")
    other = open_visit(page.context, visit.site)
    other.go("/repositories/sales/branches")
    cookies = page.context.cookies()
    page.locator(".user summary").click()
    page.get_by_role("button", name="Sign out").click()
    for tab in (page, other.page):
        tab.get_by_label("Access key ID").wait_for()
    page.context.add_cookies(cookies)  # as a thief would
    assert page.context.request.get(f"{visit.origin}/api/v1/user").status == 401
    enter_key(page)
    other.page.get_by_role("heading", name="Branches").wait_for()
    assert not other.errors


def test_the_page_stores_nothing_but_looks(visit: Visit) -> None:
    page = visit.go("/repositories/sales/objects?ref=main")
    page.locator(".user summary").click()
    page.get_by_label("Dark").check()
    page.get_by_label("Compact rows").check()
    assert page.evaluate("({...localStorage})") == {"theme": "dark", "density": "compact"}
    assert page.evaluate("sessionStorage.length") == 0
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_key_that_is_revoked_ends_what_its_user_looks_at(stranger: Visit, create_key: CreateKey) -> None:
    key = create_key("bo", "writer")
    page = stranger.go("/repositories/sales/objects?ref=main")
    enter_key(page, key["access_key_id"], key["secret_access_key"])
    page.get_by_role("link", name="events/", exact=True).wait_for()
    stranger.call("DELETE", f"/auth/users/bo/credentials/{key['access_key_id']}")
    # Columns of the folder may ask first, and have a dialog over the link.
    page.get_by_role("link", name="events/", exact=True).dispatch_event("click")
    page.get_by_role("dialog", name="Sign in").wait_for()
    enter_key(page, key["access_key_id"], key["secret_access_key"])
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("error authenticating request")
    enter_key(page)
    page.get_by_role("link", name="day=2026-11-02/").wait_for()
    expect(page.locator(".user summary")).not_to_contain_text("bo")


def test_tabs_have_one_user_and_all_show_which(visit: Visit, create_key: CreateKey) -> None:
    key = create_key("ro", "reader")
    page = visit.go("/repositories/sales/branches")
    page.get_by_role("button", name="New branch").wait_for()
    other = open_visit(page.context, visit.site)
    other.go("/repositories").locator(".user summary").click()
    other.page.get_by_role("button", name="Sign out").click()
    enter_key(other.page, key["access_key_id"], key["secret_access_key"])
    expect(page.locator(".user summary")).to_contain_text("ro")
    expect(page.get_by_role("button", name="New branch")).to_have_count(0)
    assert not other.errors
