"""A verb, in a lake, with what it does to the model."""

from collections.abc import Callable
from dataclasses import dataclass

from graveler.errors import GravelerError
from graveler.lake.lake import Lake
from graveler.staging.tokens import LEASE
from tests.lake.faults.model import Model
from tests.lake.faults.scenes import Scene

Verb = Callable[[Lake, Scene], object]


@dataclass(frozen=True)
class Case:
    """One verb in one lake.

    ``prepare`` adds to the lake of :func:`story`, and says so in the model. ``effect`` is what ``run`` does to the model.
    ``again`` are the errors with which a repeated verb may say that it was done before. ``pieces`` are the paths on ``main`` of
    which each is changed by itself. ``verify`` looks at what the model does not show, and is told whether the verb was repeated.
    ``once``: repeating it means something else. ``heals``: before, fsck finds something wrong. ``like``: the case that makes the
    same requests by the same code; the short form then tries fewer kinds of fault (:data:`SAME_PATH_KINDS`), at every request.
    ``lease``: for how many seconds others may have to wait when it died.
    """

    name: str
    run: Verb
    effect: Callable[[Model], None] = lambda _: None
    prepare: Callable[[Lake, Scene, Model], None] = lambda *_: None
    again: tuple[type[GravelerError], ...] = ()
    pieces: tuple[str, ...] = ()
    verify: Callable[[Scene, Model, bool], None] = lambda *_: None
    once: bool = False
    heals: bool = False
    like: str = ""
    lease: float = LEASE
