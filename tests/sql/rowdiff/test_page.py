"""The web page finds the rows that ``graveler diff --rows`` finds: its own test reads the same pairs of tables."""

import json

from tests.support.page_rows import FILE, differences


def test_the_page_is_held_to_what_the_command_says() -> None:
    held = {pair["path"]: pair["outcomes"] for pair in json.loads(FILE.read_text(encoding="utf-8"))}
    assert held == {pair["path"]: pair["outcomes"] for pair in differences()}
