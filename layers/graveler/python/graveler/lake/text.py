"""Validation of text from users."""

from graveler.errors import InvalidError


def utf8(name: str, text: str) -> bytes:
    """Return a text as UTF-8; ``name`` names it in the message. :class:`InvalidError` if it cannot be encoded."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(f"{name} {text!r} cannot be written as UTF-8: {error.reason}") from None
