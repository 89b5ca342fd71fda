"""Responses outside the API's base path: pages for people, and the OpenAPI document. Never JSON errors: a client of another
version of the API must not mistake them for that version's."""

from graveler.api.response import HTML_TYPE, JSON_TYPE, Response, text_response

_HOME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>graveler</title></head>
<body><h1>graveler</h1><p>Git for a data lake, without a server. The API is at <code>/api/v1</code>; it is described for
<a href="/docs">people</a> and for <a href="/openapi.json">programs</a>.</p></body></html>
"""

_NO_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>graveler: HTTP API</title></head>
<body><p>This server describes its API in <a href="/openapi.json">/openapi.json</a> only. <code>graveler serve</code>, as
<code>pip install 'graveler[server]'</code> installs it, shows the same API here, as a page for people.</p></body></html>
"""
"""The page in place of that of :mod:`graveler.server.api_page` on Lambda, whose layer has no room for that one."""


def page_outside(path: str) -> Response:
    """Return the page for a path outside the API."""
    match path:
        case "/":
            return text_response(_HOME, content_type=HTML_TYPE)
        case "/docs" | "/docs/":
            return text_response(_NO_PAGE, content_type=HTML_TYPE)
        case "/openapi.json":
            from graveler.api.openapi import openapi_json  # made when it is asked for

            return text_response(openapi_json().decode(), content_type=JSON_TYPE)
    return text_response("there is nothing here; the API is at /api/v1\n", 404)
