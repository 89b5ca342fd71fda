"""Files of the web page: the shell ``index.html``, and what it loads, ``assets/<name>-<hash>.<extension>``.

They are the data package ``graveler_page`` (``web/package``), which the wheel and the code of the function ``read`` contain, and
which is never imported. All are read at once: a running server goes on with a shell and assets that belong together when others
are installed, and nothing in a path can name another file.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from graveler.api.response import HTML_TYPE
from graveler.api.static_files import IMMUTABLE, StaticFile
from graveler.errors import CorruptError

PACKAGE: Final = "graveler_page"
ASSETS: Final = "/assets/"
_SHELL: Final = "index.html"
_BASE: Final = '<base href="/">'
"""The element of the shell in which the server writes its base path: everything else in the files is relative to it."""

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}

_SHELL_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:{stores}; connect-src 'self'{stores}; "
    "worker-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_ASSET_POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src *; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""A worker has the policy of its script, and browsers keep that for a year: it names no store, since these may change."""
_PRIVACY: Final = {"referrer-policy": "no-referrer", "cross-origin-opener-policy": "same-origin"}


def page_folder() -> Path | None:
    """Return where the page's files are installed, or None. Searches ``sys.path``."""
    spec = find_spec(PACKAGE)
    locations = [] if spec is None else list(spec.submodule_search_locations or ())
    return next((Path(location) for location in locations if Path(location, _SHELL).is_file()), None)


class PageFiles:
    """The files in ``folder``: the shell, and the ``assets`` by name. ``base`` is the base path of the shell's addresses, with a
    slash at both ends. Reads all files, some 400 KB; :class:`CorruptError` for a shell without a ``base`` element."""

    def __init__(self, folder: Path, base: str = "/") -> None:
        text = (folder / _SHELL).read_text()
        if text.count(_BASE) != 1:
            raise CorruptError(f"{folder / _SHELL} must contain {_BASE} once; build the page again with `make web`")
        self._shell = text.replace(_BASE, f'<base href="{base}">').encode()
        headers = {"content-security-policy": _ASSET_POLICY, **_PRIVACY}
        self.assets: Final = {
            file.name: StaticFile(file.read_bytes(), _TYPES[file.suffix], IMMUTABLE, headers)
            for file in (folder / "assets").iterdir()
            if file.suffix in _TYPES
        }

    def shell(self, stores: Sequence[str] = ()) -> StaticFile:
        """Return the shell of a page that may load bytes from ``stores``, origins of presigned URLs."""
        policy = _SHELL_POLICY.format(stores="".join(f" {store}" for store in stores))
        headers = {"content-security-policy": policy, **_PRIVACY}
        return StaticFile(self._shell, HTML_TYPE, headers=headers, varies="Accept")
