"""``graveler ui``: its address signs in once, and the session ends with the command."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.support.patience import PATIENCE
from tests.web.conftest import PATIENCE_MS
from tests.web.story_lake import create_story_lake


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command on the lake of the stories, and the address that it shows."""
    create_story_lake(tmp_path / "lake", int(time.time()))
    command = [sys.executable, "-m", "graveler.cli", "ui", str(tmp_path / "lake"), "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
            process.wait(PATIENCE)


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
    expect(second.get_by_role("alert")).to_contain_text("signs in only once", timeout=PATIENCE_MS)

    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)
    page.get_by_role("link", name="events/", exact=True).click()
    expect(page.get_by_role("alert").first).to_contain_text("Is the server still running?", timeout=PATIENCE_MS)
    page.context.close()
    second.context.close()
