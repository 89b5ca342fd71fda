"""A small web page in the place of the built one, for tests that are not about what is on it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SHELL: Final = (
    '<!doctype html>\n<html><head><base href="/"><script type="module" src="./assets/main-1f.js"></script></head>'
)
SCRIPT: Final = "export const answer = 42;\n" * 100
BROWSER: Final = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
"""What a browser that loads a page sends."""


def write_page(folder: Path) -> Path:
    """Write the package of a page into a folder that is to be searched before others, and return that of the package."""
    package = folder / "graveler_page"
    (package / "assets").mkdir(parents=True)
    (package / "__init__.py").write_text('"""A page."""\n')
    (package / "index.html").write_text(SHELL)
    (package / "assets" / "main-1f.js").write_text(SCRIPT)
    (package / "assets" / "icons-2a.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    return package


@contextmanager
def searched_first(folder: Path) -> Iterator[None]:
    """Search a folder before others for packages."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
