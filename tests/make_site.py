"""Builds the documentation site into ``build/docs/html``: ``make docs``. Runs in ``.venv-docs``.

Fails, with a message, on a page that the navigation lacks or that does not exist, on a link or a reference that leads nowhere,
and on anything that a browser would load from another host.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.docs_site import http_api, python_api
from tests.docs_site.built import faults
from tests.docs_site.finishing import finish
from tests.docs_site.sources import ROOT, NavigationError, assemble

BUILT: Final = ROOT / "build" / "docs"


def made() -> dict[str, str]:
    """Pages that are not in the repository: their text by their path."""
    return python_api.pages() | http_api.pages()


def build(into: Path) -> list[str]:
    """Build the site into a folder, ``html`` there, and return what is wrong with it. Takes some ten seconds."""
    try:
        configuration = assemble(into, made())
    except NavigationError as error:
        return [str(error)]
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(configuration)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        return [done.stdout.partition("Traceback")[0].strip() or done.stdout]
    finish(into / "html")
    return faults(into / "html")


def announcement(site: Path) -> str:
    """Return where a built site is, from the working folder, and the command that serves it."""
    shown = site.relative_to(Path.cwd()) if site.is_relative_to(Path.cwd()) else site
    return (
        f"built {shown}/index.html, which a browser can open\n"
        f"to serve it at http://127.0.0.1:8000/: python3 -m http.server -d {shown} --bind 127.0.0.1\n"
    )


def main() -> None:
    """Build the site, and say where it is or what is wrong."""
    into = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else BUILT
    found = build(into)
    if found:
        sys.exit("\n".join(found))
    sys.stdout.write(announcement(into / "html"))


if __name__ == "__main__":
    main()
