"""Write the pictures of the web page for the documentation: six screens, light and dark, on the lake of the stories.

Usage: ``python -m tests.web.take_pictures FOLDER``. The clock stands still; IDs of commits differ from run to run, as
objects get random addresses.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from playwright.sync_api import sync_playwright

from tests.server.support import started
from tests.web.conftest import CHROMIUM, OPTIONS, open_visit
from tests.web.story_lake import NOW, create_story_lake

PICTURES: Final = {
    "repositories": "/repositories",
    "folder": "/repositories/sales/objects?ref=draft&path=events/",
    "history": "/repositories/sales/commits?ref=fix",
    "comparison": "/repositories/sales/compare?ref=main&compare=fix",
    "uncommitted": "/repositories/sales/uncommitted?ref=draft",
    "branches": "/repositories/sales/branches?ref=main",
}
SIZE: Final = {"width": 1120, "height": 560}


def take_pictures(target: Path) -> None:
    """Write ``web-NAME-light.png`` and ``web-NAME-dark.png`` into a folder."""
    target.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        create_story_lake(folder / "lake", NOW)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        with started(folder, "--lake", str(folder / "lake"), workers=1) as site:
            for scheme in ("light", "dark"):
                context = browser.new_context(viewport=SIZE, color_scheme=scheme, timezone_id="UTC")
                visit = open_visit(context, site)
                visit.sign_in()
                visit.page.clock.set_fixed_time(NOW)
                for screen, address in PICTURES.items():
                    visit.go(address)
                    visit.page.wait_for_load_state("networkidle")
                    visit.page.screenshot(path=target / f"web-{screen}-{scheme}.png")
                context.close()
        browser.close()


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
