"""The code of each function: its folder in ``functions/``, and for ``read`` the web page's files besides, which it sends. They do
not belong in the layer, which all functions load."""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Final

from infra.settings import SettingsError

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "functions"
PAGE: Final = ROOT / "web" / "package" / "graveler_page"
BUILD: Final = ROOT / "build" / "functions"
SENDS_PAGE: Final = "read"
"""The function behind the gateway's route ``$default``."""
LEFT_OUT: Final = ("__pycache__", "*.pyc")


def function_code(verb: str, into: Path = BUILD, page: Path = PAGE) -> Path:
    """Return the folder with the code of a function. That of ``read`` is copied together, unless it lies there already: its name
    holds a digest of its files. :class:`SettingsError` if the page was not built."""
    if verb != SENDS_PAGE:
        return FOLDER / verb
    if not (page / "index.html").is_file():
        raise SettingsError(f"{page} has no index.html; build the web page first: make web")
    target = into / f"{verb}-{_digest(FOLDER / verb, page)}"
    if target.exists():
        return target
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="copying-", dir=into) as work:
        copy = Path(work) / verb
        left_out = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(FOLDER / verb, copy, ignore=left_out)
        shutil.copytree(page, copy / PAGE.name, ignore=left_out)
        try:
            copy.rename(target)
        except OSError:
            if not target.exists():  # by another process, with the same files
                raise
    return target


def _digest(*folders: Path) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"):
            digest.update(f"{file.relative_to(folder)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]
