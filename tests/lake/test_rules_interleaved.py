"""Random schedules of clients, some of which protect and unprotect the branch: no acknowledged write is lost."""

import os
from contextlib import suppress

import pytest

from graveler.errors import ForbiddenError
from graveler.lake.objects.withdrawal import Withdrawer
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings import change as settings
from tests.lake.interleaving import Client, Scheduler, final_problems

SCHEDULES = int(os.environ.get("GRAVELER_SCHEDULES", "480")) // 4
CASTS = [
    ("ruler", "writer"),
    ("ruler", "writer", "writer"),
    ("ruler", "ruler", "writer"),
    ("ruler", "writer", "committer"),
    ("ruler", "writer", "merger"),
]
OPERATIONS = {
    "ruler": ("protect", "lift", "protect_and_lift"),
    "writer": ("put", "put", "delete", "create", "read"),
    "committer": ("commit", "reset", "read"),
    "merger": ("merge",),
}


class Ruled(Client):
    """A client that may be refused."""

    def protect(self, _: str) -> None:
        self.repository.set_protection(["ma*"])

    def lift(self, _: str) -> None:
        self.repository.set_protection([])

    def protect_and_lift(self, message: str) -> None:
        self.protect(message)
        self.lift(message)

    def dare(self, message: str) -> None:
        """Whatever this client does, unless it is refused."""
        kind = self.name.rstrip("0123456789")
        with suppress(ForbiddenError):
            getattr(self, self.scheduler.random.choice(OPERATIONS[kind]))(message)


def explore(seed: int) -> None:
    scheduler = Scheduler(seed)
    scheduler.world.main.create_branch("side", "main")
    scheduler.world.main.create_branch("aside", "main")
    for number, kind in enumerate(scheduler.random.choice(CASTS)):
        Ruled(scheduler, f"{kind}{number}", ["dare"] * 5)
    scheduler.run()
    scheduler.history.judge_creations()
    problems = list(scheduler.history.wrong)
    scheduler.world.main.set_protection([])
    problems += final_problems(scheduler)
    assert not problems, f"seed {seed}: " + "; ".join(problems)


@pytest.mark.parametrize("chunk", range(4))
def test_no_schedule_loses_a_write_to_a_rule(chunk: int) -> None:
    for number in range(chunk, SCHEDULES, 4):
        explore(number)


@pytest.mark.parametrize(
    ("method", "careless"),
    [("withdraw", lambda *_: True), ("_had_no_effect", lambda *_: True)],
    ids=["told without a look", "told of sealed tokens too"],
)
def test_the_search_finds_a_refused_write_that_has_an_effect(method: str, careless: object) -> None:
    def explore_many() -> None:
        for seed in range(3000):
            explore(seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Withdrawer, method, careless)
        with pytest.raises(AssertionError, match=r"^seed"):
            explore_many()


def test_the_search_finds_that_a_sealed_token_is_looked_at_before_it_is_dropped() -> None:
    def explore_many() -> None:
        for seed in range(3000):
            explore(seed)

    with pytest.MonkeyPatch.context() as patch:
        renew = settings._renew_token

        def careless(repository: RepositoryParts, name: str) -> None:
            with pytest.MonkeyPatch.context() as inner:
                inner.setattr(repository.staged, "exists", lambda _: False)  # sees nothing that is staged
                renew(repository, name)

        patch.setattr(settings, "_renew_token", careless)
        with pytest.raises(AssertionError, match=r"^seed"):
            explore_many()
