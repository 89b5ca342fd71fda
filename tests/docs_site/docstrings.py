"""Griffe's extension, which mkdocstrings loads in ``.venv-docs``: docstrings as Markdown, and the fields of values."""

from collections.abc import Iterator
from typing import Any

import griffe

from tests.docs_site.python_api import fields, markdown, public


class Docstrings(griffe.Extension):
    """Makes Markdown of all docstrings, and adds to each class that is a value or an error a table of its fields."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Change a package that was read."""
        names = public()
        for each in _objects(pkg):
            text = each.docstring.value if each.docstring else ""
            text = markdown(text, names)
            if each.is_class and pkg.name == "graveler" and each.module.path in ("graveler.model", "graveler.errors"):
                rows = [
                    (name, str(member.annotation), str(member.value or ""))
                    for name, member in each.members.items()
                    if member.is_attribute and member.annotation is not None and not name.startswith("_")
                ]
                text += f"\n\n{fields(rows)}" if rows else ""
            if text:
                each.docstring = griffe.Docstring(text, parent=each)


def _objects(of: griffe.Object) -> Iterator[griffe.Object]:
    yield of
    for member in of.members.values():
        if not member.is_alias:
            yield from _objects(member)
