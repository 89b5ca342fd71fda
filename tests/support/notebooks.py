"""Values as notebooks show them."""

from typing import Any


def html_of(value: Any) -> str:
    """Return the HTML that a notebook asks for."""
    html: str = value._repr_html_()
    return html
