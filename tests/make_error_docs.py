"""Writes ``docs/errors.md`` from the exceptions: ``python -m tests.make_error_docs``. A test holds the page to them."""

from pathlib import Path

from graveler.api.errors import status_and_error
from graveler.error_codes import code_of, fields_of
from graveler.errors import GravelerError
from tests.wire.examples import every_error

PAGE = Path(__file__).resolve().parents[1] / "docs" / "errors.md"
HEAD = """# Errors

Each error has a class in Python and a code on the wire:

```json
{"message": "object not found", "detail": "object 'a.csv' does not exist in 'main'", "code": "object_not_found",
 "fields": {"path": "a.csv", "ref": "main"}}
```

Programs go by the class, or by code and fields; a published code keeps its meaning. Sentences are for people, and change.
`graveler.open("https://…")` raises the same exception, with the same fields, as a lake of your own.

Published clients of lakeFS compare some messages to the letter. Where they do, the table has the words, and the sentence is the
`detail`; elsewhere the sentence is the `message`, and there is no `detail`. A client that does not know a code goes by the
status.

The page is written by `python -m tests.make_error_docs`, and a test compares it with the exceptions.

| code | class | status | words of published clients | fields | meaning |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The page as it should be."""
    by_code: dict[str, list[GravelerError]] = {}
    for error in every_error("name"):
        by_code.setdefault(code_of(error), []).append(error)
    return HEAD + "".join(f"{_line(code, found)}\n" for code, found in sorted(by_code.items()))


def _line(code: str, found: list[GravelerError]) -> str:
    told = [status_and_error(error) for error in found]
    statuses = ", ".join(dict.fromkeys(str(status) for status, _ in told))
    words = ", ".join(dict.fromkeys(f"`{said.message}`" for _, said in told if said.detail))
    fields = ", ".join(f"`{name}`" for name in fields_of(found[0]))
    meaning = " ".join((type(found[0]).__doc__ or "").partition("\n\n")[0].replace("``", "`").split())
    return f"| `{code}` | `{type(found[0]).__name__}` | {statuses} | {words} | {fields} | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page())
