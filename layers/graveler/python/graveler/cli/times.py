"""Points in time as users write them: a date, a date with time, a duration ago, or Unix seconds."""

import re
import time
from datetime import datetime
from typing import Final

from graveler.errors import InvalidError
from graveler.history.relative_times import AGO_EXAMPLES, seconds_ago

_UNIX: Final = re.compile(r"@([0-9]{1,18})")


def parse_moment(option: str, text: str) -> int:
    """Return the Unix seconds of ``2026-06-01``, ``2026-06-01T12:00`` (local time, unless followed by a zone, as in ``…Z``), a
    duration (:mod:`graveler.history.relative_times`) and ``@1780000000``. :class:`InvalidError`, naming the ``option``."""
    ago, unix = seconds_ago(text), _UNIX.fullmatch(text)
    if ago is not None:
        return int(time.time()) - ago
    if unix:
        return int(unix[1])
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        raise InvalidError(
            f"{option} {text!r} is not a time; write a date (2026-06-01), a date with time (2026-06-01T12:00, local; "
            f"with Z, UTC), how long ago ({AGO_EXAMPLES}), or Unix seconds (@1780000000)"
        ) from None
