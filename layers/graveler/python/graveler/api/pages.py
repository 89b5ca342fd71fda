"""Responses outside the API's base path: the web page, and the OpenAPI document. Never JSON errors: a client of another version
of the API must not mistake them for that version's."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Final

from graveler.api.negotiation import accepts
from graveler.api.page_addresses import is_page_address
from graveler.api.page_files import ASSETS, PageFiles, page_folder
from graveler.api.response import HTML_TYPE, JSON_TYPE, Response, text_response
from graveler.api.settings import Settings
from graveler.api.static_files import StaticFile
from graveler.api.store_origins import store_origins
from graveler.lake.lake import Lake

_HOME: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>graveler</title></head>
<body><h1>graveler</h1><p>This server has no web page, since the files of <code>graveler_page</code> are not installed; its API
is at <code>{base}api/v1</code>, and described for <a href="{base}docs">people</a> and for
<a href="{base}openapi.json">programs</a>.</p></body></html>
"""

_NO_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>graveler: HTTP API</title></head>
<body><p>This server describes its API in <a href="{base}openapi.json">/openapi.json</a> only. <code>graveler serve</code>, as
<code>pip install 'graveler[server]'</code> installs it, shows the same API here, as a page for people.</p></body></html>
"""
"""The page in place of that of :mod:`graveler.server.api_page` on Lambda, whose layer has no room for that one."""

_READS: Final = ("GET", "HEAD")


class Pages:
    """The responses to requests outside of the API. The files of the page are read when the first one is requested, or by
    :meth:`load`; without them, ``/`` says so."""

    def __init__(self, lake: Lake, settings: Settings) -> None:
        self._lake = lake
        self._settings = settings

    @cached_property
    def _files(self) -> PageFiles | None:
        folder = page_folder()
        return None if folder is None else PageFiles(folder, self._settings.base_path)

    @cached_property
    def _shell(self) -> StaticFile | None:
        files = self._files
        return None if files is None else files.shell(store_origins(self._lake, self._settings.page_stores))

    def load(self) -> None:
        """Read the files of the page now, in place of when the first one is requested. No request."""
        _ = self._files

    def respond(self, method: str, path: str, headers: Mapping[str, str]) -> Response:
        """Return the response for a percent-encoded path outside the API, to a request with these headers (names in lower case).
        No request."""
        if method in _READS:
            file = self._file(path, headers)
            if file is not None:
                return file.respond(method, headers)
            text = {"/": _HOME, "/docs": _NO_PAGE, "/docs/": _NO_PAGE}.get(path)
            if text is not None:
                return text_response(text.format(base=self._settings.base_path), content_type=HTML_TYPE)
        return text_response("there is nothing here; the API is at /api/v1\n", 404)

    def _file(self, path: str, headers: Mapping[str, str]) -> StaticFile | None:
        if path == "/openapi.json":
            return _openapi(self._settings.base_path)
        if path.startswith(ASSETS):
            return None if self._files is None else self._files.assets.get(path.removeprefix(ASSETS))
        if path == "/" or (
            accepts(headers.get("accept", ""), "text/html")
            and is_page_address(path, joins=self._settings.decoded_paths)
        ):
            return self._shell
        return None


@lru_cache(maxsize=1)
def _openapi(base: str) -> StaticFile:
    from graveler.api.openapi import openapi_json  # made when it is asked for

    return StaticFile(openapi_json(base), JSON_TYPE)
