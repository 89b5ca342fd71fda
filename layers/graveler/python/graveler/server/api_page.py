"""The page of the API for people, `/docs`: Swagger UI, whose files the package flask-swagger-ui of the extra ``server`` has.

Of the package only files are read; its code, and Flask, are never imported. The page loads nothing from elsewhere. It shares its
origin with objects that users upload, so its policy lets no script run but the two whose hashes it names.
"""

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from graveler.api.response import HTML_TYPE
from graveler.api.static_files import StaticFile
from graveler.server.events import response_of
from graveler.server.requests import Request
from graveler.server.responses import ServerResponse

PAGE: Final = "/docs"
_OPERATION: Final = "apiPage"
_SCRIPT: Final = "swagger-ui-bundle.js"
_FILES: Final = ("", "start.js", _SCRIPT, "swagger-ui.css")
_TYPES: Final = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}

_START_TEXT: Final = """SwaggerUIBundle({{
  url: "{base}openapi.json", dom_id: "#page", deepLinking: true, docExpansion: "none", filter: true,
  defaultModelsExpandDepth: 0, validatorUrl: null,
}});
"""

_POLICY: Final = (
    "default-src 'none'; script-src {script} {start}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_PAGE_TEXT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>graveler: HTTP API</title>
<link rel="stylesheet" href="{base}docs/swagger-ui.css"></head>
<body><div id="page"></div>
<script src="{base}docs/swagger-ui-bundle.js" integrity="{script}"></script>
<script src="{base}docs/start.js" integrity="{start}"></script></body></html>
"""


def is_api_page(path: str) -> bool:
    """Return whether the path is that of the page or of one of its files."""
    return path == PAGE or path.startswith(f"{PAGE}/")


def api_page(request: Request, base: str = "/") -> ServerResponse | None:
    """Return the page, or one of its files, for a server below the path ``base``; None if there is no such file, or the package
    is not installed. The first request for each reads files."""
    name = request.path.removeprefix(PAGE).strip("/")
    file = _file(name, base) if name in _FILES else None
    return (
        None if file is None else response_of(file.respond(request.method, request.headers), _OPERATION, request.method)
    )


def _folder() -> Path | None:
    spec = find_spec("flask_swagger_ui")  # finds the package without importing it
    return (
        None
        if spec is None or not spec.submodule_search_locations
        else Path(spec.submodule_search_locations[0], "dist")
    )


@lru_cache(maxsize=len(_FILES))
def _file(name: str, base: str) -> StaticFile | None:
    """Return the page (the empty name), or another one of :data:`_FILES`. Browsers keep them, and ask each time: after an update
    the page's hashes fit new files only."""
    folder = _folder()
    if folder is None:
        return None
    start = _START_TEXT.format(base=base).encode()
    match name:
        case "":
            hashes = {"script": _hash((folder / _SCRIPT).read_bytes()), "start": _hash(start)}
            quoted = {part: f"'{value}'" for part, value in hashes.items()}
            headers = {"content-security-policy": _POLICY.format(**quoted), "referrer-policy": "no-referrer"}
            return StaticFile(_PAGE_TEXT.format(base=base, **hashes).encode(), HTML_TYPE, headers=headers)
        case "start.js":
            return StaticFile(start, _TYPES["js"])
        case _:
            return StaticFile((folder / name).read_bytes(), _TYPES[name.rpartition(".")[2]])


def _hash(script: bytes) -> str:
    """Return the script's hash as policies and the attribute ``integrity`` spell it."""
    return f"sha256-{b64encode(sha256(script).digest()).decode()}"
