"""Points in time as users write them: a date, a date with time, a duration ago, or Unix seconds."""

import re
import time
from datetime import datetime
from typing import Final

from graveler.errors import InvalidError

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO: Final = re.compile(r"(\d{1,9})([smhdw])")
_UNIX: Final = re.compile(r"@(\d{1,18})")


def parse_moment(option: str, text: str) -> int:
    """Return the Unix seconds of ``2026-06-01``, ``2026-06-01T12:00`` (local time, unless followed by a zone, as in ``…Z``),
    ``3d`` ago (s, m, h, d, w) and ``@1780000000``. :class:`InvalidError`, naming the ``option``."""
    ago, unix = _AGO.fullmatch(text), _UNIX.fullmatch(text)
    if ago:
        return int(time.time()) - int(ago[1]) * _SECONDS[ago[2]]
    if unix:
        return int(unix[1])
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        raise InvalidError(
            f"{option} {text!r} is not a time; write a date (2026-06-01), a date with time (2026-06-01T12:00, local; "
            "with Z, UTC), how long ago (90m, 12h, 3d, 2w), or Unix seconds (@1780000000)"
        ) from None
