"""What holds on each screen: it has an address, no violation of accessibility rules, and fits into a narrow window."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.web.conftest import ROOT, Visit
from tests.web.story_lake import STRANGE_NAMES

SCREENS: Final = {
    "/": "Repositories",
    "/repositories?search=sal": "Repositories",
    "/repositories/sales": "sales",
    "/repositories/sales/objects?ref=main": "sales",
    "/repositories/sales/objects?ref=draft&path=events/": "events",
    "/repositories/strange/objects?ref=main": "strange",
    "/repositories/sensors/objects?ref=main": "sensors",
    "/repositories/sales/object?ref=main&path=events/day=2026-11-03/part-0000.parquet": "part-0000.parquet",
    "/repositories/sales/object?ref=main&path=prices.csv": "prices.csv",
    "/repositories/sales/object?ref=main&path=README.md&tab=history": "README.md",
    "/repositories/sales/object?ref=main&path=pictures/logo.svg&tab=details": "logo.svg",
    "/repositories/sales/commits?ref=main": "History",
    "/repositories/sales/commits/main": "sales",
    "/repositories/sales/branches/main/revert?commits=main": "sales",
    "/repositories/sales/compare?ref=main&compare=fix": "sales",
    "/repositories/sales/compare?ref=main&compare=fix&conflict=prices.csv&file=prices.csv": "sales",
    "/repositories/sales/uncommitted?ref=draft": "sales",
    "/repositories/sales/uncommitted?ref=draft&file=prices.csv": "sales",
    "/repositories/sales/branches": "Branches",
    "/repositories/sales/branches?prefix=f&show_hidden=true": "Branches",
    "/repositories/sales/tags?prefix=v": "Tags",
    "/repositories/sales/reflog?ref=main": "Reference log",
    "/repositories/sales/pulls": "Nothing here",
}
"""Addresses, and the words with which their titles begin, or that are in it."""

SIGN_IN: Final = ("/auth/login", "/auth/login?next=/repositories/sales", "/setup")
AXE: Final = ROOT / "web/node_modules/axe-core/axe.min.js"
THEMES: Final = [pytest.param({"color_scheme": scheme}, id=scheme) for scheme in ("light", "dark")]
NARROW: Final = [pytest.param({"viewport": {"width": 320, "height": 800}}, id="320")]


def violations(visit: Visit) -> list[str]:
    """Return the violations of axe's rules on the screen, each with where it is."""
    visit.page.evaluate(Path(AXE).read_text())
    result: dict[str, Any] = visit.page.evaluate("axe.run()")
    return [
        f"{violation['id']} at {node['target']}: {node['failureSummary']}"
        for violation in result["violations"]
        for node in violation["nodes"][:3]
    ]


def wider_than_window(visit: Visit) -> int:
    """Return by how many pixels the screen is wider than the window."""
    width = visit.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return int(width)


@pytest.mark.parametrize("look", THEMES, indirect=True)
@pytest.mark.parametrize("address", SCREENS)
def test_each_screen_keeps_the_rules_of_accessibility(visit: Visit, address: str) -> None:
    page = visit.go(address)
    assert SCREENS[address] in page.title()
    assert violations(visit) == []


@pytest.mark.parametrize("look", THEMES, indirect=True)
def test_dialogs_keep_the_rules_of_accessibility(visit: Visit) -> None:
    page = visit.go("/repositories/sales/branches?ref=main")
    for key in ("b", "?", "t", "Control+k"):
        page.keyboard.press(key)
        page.get_by_role("dialog").wait_for()
        assert violations(visit) == [], key
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")


@pytest.mark.parametrize("look", THEMES, indirect=True)
@pytest.mark.parametrize("address", SIGN_IN)
def test_the_sign_in_keeps_the_rules_of_accessibility(stranger: Visit, address: str) -> None:
    stranger.go(address)
    stranger.page.get_by_label("Access key ID").wait_for()
    assert violations(stranger) == []


@pytest.mark.parametrize("look", NARROW, indirect=True)
def test_no_screen_is_wider_than_a_narrow_window(visit: Visit) -> None:
    for address in SCREENS:
        visit.go(address)
        assert wider_than_window(visit) == 0, address


def test_names_from_users_are_shown_linked_and_fetched_as_they_are(visit: Visit) -> None:
    for name in STRANGE_NAMES:
        folder = name.rpartition("/")[0]
        prefix = quote(f"{folder}/" if folder else "", safe="")
        page = visit.go(f"/repositories/strange/objects?ref=main&path={prefix}")
        links = page.locator("main a").evaluate_all(
            "links => links.map(link => new URL(link.href).searchParams.get('path'))"
        )
        assert name in links, name
    assert "taken over" not in visit.page.title()
