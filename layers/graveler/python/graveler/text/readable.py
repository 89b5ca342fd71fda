"""Numbers, names and URLs as people read them, on one line."""


def human_size(size: int) -> str:
    """Return bytes as people read them: ``812 B``, ``3.4 MiB``."""
    if size < 1024:
        return f"{size} B"
    amount, units = float(size), iter(("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
    unit = ""
    while amount >= 1024 and (following := next(units, "")):
        amount, unit = amount / 1024, following
    return f"{amount:.1f} {unit}"


def count(number: int, noun: str) -> str:
    """Return ``1 object``, ``2 objects``."""
    if number == 1:
        return f"1 {noun}"
    plural = noun + "es" if noun.endswith(("ch", "x")) else noun[:-1] + "ies" if noun.endswith("ry") else noun + "s"
    return f"{number:,} {plural}"


def printable(text: str) -> str:
    """Return ``text`` with escapes such as ``\\n`` and ``\\u202e`` for whatever would move a cursor, hide something or turn the
    direction of writing, and for halves of characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def without_password(url: str) -> str:
    """Return a URL with ``…@`` for the name and the password in front of its host, if there are any."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    _, separator, name = host.rpartition("@")
    return f"{scheme}{mark}…@{name}{slash}{path}" if separator else url
