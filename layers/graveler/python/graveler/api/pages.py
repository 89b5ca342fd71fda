"""What is answered outside the API's base path: for people, never JSON errors, since a client that asks for another version of
the API must not take the answer for one."""

from graveler.api.response import HTML_TYPE, Response, text_response

_HOME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>graveler</title></head>
<body><h1>graveler</h1><p>Git for a data lake, without a server. The API is at <code>/api/v1</code>.</p></body></html>
"""


def page_outside(path: str) -> Response:
    """The page for a path outside the API."""
    if path == "/":
        return text_response(_HOME, content_type=HTML_TYPE)
    return text_response("there is nothing here; the API is at /api/v1\n", 404)
