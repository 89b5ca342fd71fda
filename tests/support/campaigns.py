"""The size of a law and of an enumeration: short in ``make test`` and ``.ci/run``, whole in ``make soak``."""

import os
from collections.abc import Sequence
from typing import Final, TypeVar
from zlib import crc32

Item = TypeVar("Item")

EXAMPLES: Final = int(os.environ.get("GRAVELER_EXAMPLES", "100"))
WHOLE: Final = "GRAVELER_WHOLE" in os.environ
SHORT: Final = 0.25
"""The part of its examples that a law runs where nobody asks for more."""


def examples(number: int) -> int:
    """Returns how many examples Hypothesis runs of a law which is worth ``number`` of them.

    ``GRAVELER_EXAMPLES=250`` runs just that many, ``make soak`` runs eight times as many, and every other run a quarter as many.
    """
    return max(10, round(number * SHORT * EXAMPLES / 100))


def share(items: Sequence[Item], of: int, label: str) -> Sequence[Item]:
    """Returns every ``of``-th item, or all of them with ``GRAVELER_WHOLE``.

    The seed of the run (``--hypothesis-seed``) and the label say where it begins, so that runs with ``of`` successive seeds take
    every item once, and tests with other labels take other items.
    """
    return items if WHOLE else items[(seed() + crc32(label.encode())) % of :: of]


def seed() -> int:
    """Returns the number behind ``--hypothesis-seed``, or 0; ``tests/conftest.py`` writes it down."""
    return _given[0]


def begin(given: object) -> None:
    """Takes the value of the option ``--hypothesis-seed``, which is None where nobody gave one."""
    _given[0] = int(str(given)) if str(given).isdigit() else 0


_given: Final = [0]
