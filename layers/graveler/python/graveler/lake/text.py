"""Text from users on its way in."""

from graveler.errors import InvalidError


def utf8(what: str, text: str) -> bytes:
    """The bytes of a text that ``what`` names. :class:`InvalidError` if it cannot be written as UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(f"{what} {text!r} cannot be written as UTF-8: {error.reason}") from None
