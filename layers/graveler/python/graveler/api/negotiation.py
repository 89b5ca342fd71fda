"""Headers by which clients choose a representation: ``Accept``, ``Accept-Encoding`` and ``If-None-Match`` (RFC 9110, 12.5 and
13.1.2)."""


def accepts(header: str, choice: str) -> bool:
    """Return whether a list such as ``gzip;q=0.5, br`` names ``choice`` (in lower case) with a weight above 0. Wildcards do not
    count."""
    if choice not in header.lower():
        return False
    for item in header.lower().split(","):
        name, _, parameters = item.partition(";")
        if name.strip() == choice:
            weight = parameters.replace(" ", "").partition("q=")[2].partition(";")[0]
            return not weight or bool(weight.strip("0."))
    return False


def names_tag(header: str, tag: str) -> bool:
    """Return whether ``If-None-Match`` names an ETag, by weak comparison. ``*`` does not count: clients that send it ask about
    existence, and want the contents."""
    opaque = tag.removeprefix("W/")
    return any(item.strip().removeprefix("W/") == opaque for item in header.split(","))
