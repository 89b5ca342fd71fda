"""The page of the API for people, `/docs`: Swagger UI, whose files the package flask-swagger-ui of the extra ``server`` has.

Of the package only files are read; its code, and Flask, are never imported. The page loads nothing from elsewhere. It shares its
origin with objects that users upload, so its policy lets no script run but the two whose hashes it names.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from graveler.server.requests import Request
from graveler.server.responses import Headers, ServerResponse

PAGE: Final = "/docs"
_OPERATION: Final = "apiPage"
_SCRIPT: Final = "swagger-ui-bundle.js"
_TYPES: Final = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}

_START_TEXT: Final = b"""SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#page", deepLinking: true, docExpansion: "none", filter: true,
  defaultModelsExpandDepth: 0, validatorUrl: null,
});
"""

_POLICY: Final = (
    "default-src 'none'; script-src {script} {start}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_PAGE_TEXT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>graveler: HTTP API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="page"></div>
<script src="/docs/swagger-ui-bundle.js" integrity="{script}"></script>
<script src="/docs/start.js" integrity="{start}"></script></body></html>
"""


def is_api_page(path: str) -> bool:
    """Return whether the path is that of the page or of one of its files."""
    return path == PAGE or path.startswith(f"{PAGE}/")


def api_page(request: Request) -> ServerResponse | None:
    """Return the page, or one of its files; None if there is no such file, or the package is not installed. Reads files."""
    spec = find_spec("flask_swagger_ui")  # finds the package without importing it
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0], "dist")
    name = request.path.removeprefix(PAGE).strip("/")
    headers: Headers = []
    match name:
        case "":
            script, start = _hash((folder / _SCRIPT).read_bytes()), _hash(_START_TEXT)
            body = _PAGE_TEXT.format(script=script, start=start).encode()
            headers = [
                ("content-type", "text/html; charset=utf-8"),
                ("content-security-policy", _POLICY.format(script=f"'{script}'", start=f"'{start}'")),
                ("referrer-policy", "no-referrer"),
            ]
        case "start.js":
            body = _START_TEXT
        case "swagger-ui-bundle.js" | "swagger-ui.css":
            body = (folder / name).read_bytes()
        case _:
            return None
    if name:
        headers = [("content-type", _TYPES[name.rpartition(".")[2]])]
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    # Browsers keep them, and ask each time: after an update the page's hashes fit new files only.
    headers += [("etag", tag), ("cache-control", "no-cache"), ("x-content-type-options", "nosniff")]
    if tag in request.headers.get("if-none-match", ""):
        return ServerResponse(304, headers, operation=_OPERATION)
    return ServerResponse(200, headers, body, operation=_OPERATION)


def _hash(script: bytes) -> str:
    """Return the script's hash as policies and the attribute ``integrity`` spell it."""
    return f"sha256-{b64encode(sha256(script).digest()).decode()}"
