"""Durations back from now, as people write them: ``1 hour ago``, ``90m``, ``yesterday``.

::

    ago       := "now" | "yesterday" | number gap? unit (gap "ago")?
    number    := one to nine digits
    unit      := second | minute | hour | day | week, also with an s at the end, or the first letter alone
    gap       := " " | "."

The case of letters does not matter. A dot stands for a space, as in Git, so that a shell needs no quotes: ``main@{1.hour.ago}``.
``yesterday`` is 24 hours ago, also as in Git. A day has 24 hours, whatever the clocks do.
"""

import re
from typing import Final

AGO_EXAMPLES: Final = "1 hour ago, 90m, 3d or yesterday"
"""Durations for error messages."""

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WORDS: Final = {"now": 0, "yesterday": _SECONDS["d"]}
_AGO: Final = re.compile(r"([0-9]{1,9})[ .]?(?:([smhdw])|(second|minute|hour|day|week)s?)(?:[ .]ago)?")


def seconds_ago(text: str) -> int | None:
    """Return the seconds of a duration; None for any other text."""
    word = text.lower()
    if word in _WORDS:
        return _WORDS[word]
    match = _AGO.fullmatch(word)
    return None if match is None else int(match[1]) * _SECONDS[match[2] or match[3][0]]
