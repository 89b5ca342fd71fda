"""How long a test waits for something that has to happen."""

from typing import Final

PATIENCE: Final = 180.0
"""Seconds after which a test gives up. Only what hangs takes so long, however busy the machine is: a test never asserts that
something is fast, and what it waits for comes by itself, not by the end of this time."""
HUGE: Final = 4 << 40
"""Bytes of a sparse file that nobody reads to its end within the patience."""
