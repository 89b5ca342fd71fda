"""``graveler ui``: its address signs in once, and the session ends with the command."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.support.patience import PATIENCE
from tests.web.conftest import PATIENCE_MS
from tests.web.story_lake import create_story_lake


@contextmanager
def showing(lake: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command on a lake until the end of the block, and the address that it shows."""
    command = [sys.executable, "-m", "graveler.cli", "ui", str(lake), "--no-browser", "--json", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
            process.wait(PATIENCE)


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command on the lake of the stories, and the address that it shows."""
    create_story_lake(tmp_path / "lake", int(time.time()))
    with showing(tmp_path / "lake") as shown:
        yield shown


def test_the_address_signs_in_once_until_the_command_ends(
    browser: Browser, look: dict[str, Any], ui: tuple[subprocess.Popen[str], str]
) -> None:
    process, url = ui
    page = browser.new_context(**look).new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    page.get_by_role("link", name="sales", exact=True).wait_for()
    assert "code" not in page.url
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("link", name="sales", exact=True).click()
    page.get_by_role("link", name="README.md").wait_for()

    second = browser.new_context(**look).new_page()
    second.goto(url)
    expect(second.get_by_role("alert")).to_contain_text("signs in only once")

    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)
    page.get_by_role("link", name="events/", exact=True).click()
    expect(page.get_by_role("alert").first).to_contain_text("Is the server still running?")
    page.context.close()
    second.context.close()


def origin_of(url: str) -> str:
    """Return the origin of an address that the command shows."""
    return url.partition("/auth/")[0]


def test_nothing_that_the_browser_sends_or_stores_has_the_code(
    browser: Browser, look: dict[str, Any], ui: tuple[subprocess.Popen[str], str]
) -> None:
    _, url = ui
    code = url.partition("#code=")[2]
    context = browser.new_context(**look)
    sent: list[str] = []
    context.on("request", lambda request: sent.extend([request.url, *map(str, request.headers.items())]))
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    page.get_by_role("link", name="sales", exact=True).click()
    page.get_by_role("link", name="README.md").wait_for()
    assert [text for text in sent if code in text] == []
    assert [text for text in sent if "referer" in text.lower() and origin_of(url) in text] == []
    page.go_back()
    page.get_by_role("link", name="sales", exact=True).wait_for()
    stored = (
        "(async () => [(await indexedDB.databases()).length, (await caches.keys()).length, sessionStorage.length])()"
    )
    assert page.evaluate(stored) == [0, 0, 0]
    assert set(page.evaluate("Object.keys(localStorage)")) <= {"theme", "density"}
    context.close()


def test_an_address_that_is_opened_again_in_the_same_browser_leads_on(
    browser: Browser, look: dict[str, Any], ui: tuple[subprocess.Popen[str], str]
) -> None:
    _, url = ui
    context = browser.new_context(**look)
    for _ in range(2):
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(url)
        page.get_by_role("link", name="sales", exact=True).wait_for()
    context.close()


def test_a_page_sends_nothing_to_the_next_process_on_its_port(
    browser: Browser, look: dict[str, Any], ui: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    """The next one shows another lake, which has a repository and branches of the same names."""
    process, url = ui
    context = browser.new_context(**look)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    page.get_by_role("link", name="sales", exact=True).wait_for()
    origin = origin_of(url)
    page.goto(f"{origin}/repositories/sales/branches?ref=main")
    page.get_by_role("button", name="New branch").click()
    page.get_by_label("Name").fill("meant-for-the-first")
    process.kill()
    process.wait(PATIENCE)
    create_story_lake(tmp_path / "other", int(time.time()))
    with showing(tmp_path / "other", int(origin.rpartition(":")[2])) as (_, next_url):
        page.keyboard.press("Enter")
        page.get_by_role("dialog", name="Sign in").wait_for()
        expect(page.get_by_role("dialog", name="Sign in")).to_contain_text("Run it again")
        with page.expect_navigation():
            other = context.new_page()
            other.goto(next_url)
        page.get_by_role("link", name="fix", exact=True).wait_for()
        names = page.evaluate("fetch('api/v1/repositories/sales/branches').then(answer => answer.text())")
        assert "fix" in names
        assert "meant-for-the-first" not in names
    context.close()
