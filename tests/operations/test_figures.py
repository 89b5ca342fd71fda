"""The figures about long operations and ingest in the documents are those of the code."""

import ast
from pathlib import Path
from typing import Final

import pytest
from bench.operations_paper import RECORD_SECONDS, events

from graveler.api.background import REMEMBERED
from graveler.api.settings import DEFAULT_OPERATION_RECORDS, DEFAULT_REQUEST_SECONDS
from graveler.functions import ingest_entry
from graveler.ingest.results import Outcome
from graveler.lake.clock import GRACE, Polls
from graveler.lake.committing.commit import _AHEAD
from graveler.lake.gates.rule_validation import MAX_HOLD
from graveler.lake.turns import KEPT, PATIENT, TURN
from graveler.operations import claims, machine, runner, store, sweeper
from graveler.operations.one_process import AT_ONCE
from graveler.operations.operator import LONGEST_WAIT, MAX_ATTEMPTS, SILENT
from graveler.operations.parts.commit_work import HANDOVER
from graveler.operations.parts.division import Sizes
from infra import state_machine
from infra.settings import INGEST_AT_ONCE, Settings
from infra.state_machine import INLINE, INLINE_ROUNDS, definition
from tests.lake.support import FakeClock

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
WORDS: Final = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 10: "ten", 12: "twelve"}


def infra(module: str, name: str) -> int:
    """A number that a stack is made with, which needs more than these tests to be imported."""
    tree = ast.parse((ROOT / "infra" / f"{module}.py").read_text())
    found = (node for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name)
    value: int = ast.literal_eval(next(node.value for node in found if node.value is not None))
    return value


def minutes(seconds: float) -> int:
    assert seconds % 60 == 0
    return int(seconds // 60)


def words(number: float) -> str:
    return WORDS[int(number)]


def again(name: str) -> int:
    """How often a step is tried again that failed by this name."""
    rules = definition("arn", at_once=INLINE)["States"]["Plan"]["Retry"]
    return int(next(rule for rule in rules if name in rule["ErrorEquals"])["MaxAttempts"])


def longest(name: str) -> float:
    """Seconds for which a step is tried again that fails by this name, at most."""
    rules = definition("arn", at_once=INLINE)["States"]["Plan"]["Retry"]
    rule = next(rule for rule in rules if name in rule["ErrorEquals"])
    pauses = (rule["IntervalSeconds"] * rule["BackoffRate"] ** number for number in range(rule["MaxAttempts"]))
    return float(sum(min(pause, rule["MaxDelaySeconds"]) for pause in pauses))


def patience() -> float:
    """Seconds for which a verb waits for a branch."""
    clock = FakeClock()
    polls, began = Polls(clock), clock.time
    while polls.wait():
        pass
    return round(clock.time - began)


DEAD: Final = machine.LEASE + SILENT
"""Seconds until an operation of a state machine is dead."""

MOST_EVENTS: Final = events(INLINE, INLINE_ROUNDS, failures=again("States.ALL") * INLINE * INLINE_ROUNDS)

OPERATIONS: Final = [
    f"the first {_AHEAD:,} changes of a commit, show that it has to read more than {DEFAULT_OPERATION_RECORDS:,} records",
    f"A request has {DEFAULT_REQUEST_SECONDS:.0f} seconds",
    f"{Settings().request_records:,}, because of its {infra('functions', 'REQUEST_SECONDS')} seconds",
    f"waits for the operation's end, up to {DEFAULT_REQUEST_SECONDS:.0f} seconds",
    f"kept for {words(minutes(REMEMBERED))} minutes for a repeated request",
    f"{words(AT_ONCE)} parts at a time",
    {1.0: "renewed every second"}[runner.HEARTBEAT],
    f"({runner.LEASE:.0f} seconds in a process, {words(minutes(machine.LEASE))} minutes in a state machine) and a minute more",
    {60.0: "and a minute more"}[SILENT],
    f"A sweep (every {words(minutes(sweeper.EVERY))} minutes in `graveler serve`, every {infra('api', 'SWEEP_MINUTES')} on AWS)",
    f"marks it as failed once {words(MAX_ATTEMPTS)} workers have died over it",
    f"no worker has started for {words(LONGEST_WAIT / 3600)} hours",
    f"has died ({words(minutes(DEAD))} minutes)",
    f"seems alive for {words(minutes(DEAD))} minutes",
    f"and for {HANDOVER:.0f} seconds between two steps",
    f"reading {Sizes().in_place:,} records at most (some {Sizes().in_place * RECORD_SECONDS:.0f} seconds)",
    f"after {patience():.0f} seconds because it is busy",
    f"up to {INLINE} by itself, more with an execution of its own for each",
    f"`UnavailableError`) {words(again('AnswerLostError'))} times",
    f"such as a killed process, {words(again('States.ALL'))} times",
    f"at most {Sizes().parts:,}; none means: publish",
    f"gives a sign of life every {words(claims.BEAT)} seconds",
    f"restarted {words(claims.LEASE)} seconds later",
    {60.0: "gives a sign of life every minute"}[machine.RENEWAL],
    f"counts as alive for {words(minutes(machine.LEASE))} minutes after it",
    f"Up to {INLINE} parts run in the execution's own history",
    f"{words(INLINE_ROUNDS)} rounds in which all of them fail {words(again('States.ALL'))} times make {MOST_EVENTS:,}",
]

CONCURRENCY: Final = [
    f"stays valid for {KEPT:.0f} seconds without a sign",
    f"patience of other verbs ({patience():.0f} seconds)",
    f"a step of another operation waits for {words(minutes(PATIENT))} minutes",
    f"removes it after {TURN:.0f} seconds",
    f"| random, every {KEPT / 3:.0f} s | {KEPT:.0f} s |",
    f"| random, every {claims.BEAT:.0f} s | {claims.LEASE:.0f} s |",
    f"{runner.LEASE:.0f} s; {minutes(machine.LEASE)} minutes | a process that looks it up",
]

DEPLOY: Final = [
    f"A function ends after {infra('functions', 'REQUEST_SECONDS')} seconds",
    f"takes each step in {minutes(state_machine.STEP_SECONDS)} minutes at most",
    f"| `parts_at_once` | {Settings().parts_at_once} |",
    f"up to {Sizes().parts:,}, if the account may run that many",
    f"| `request_records` | {Settings().request_records} |",
]

INGEST: Final = [
    f"Batches have up to {infra('ingest', 'BATCH')} messages, of {words(infra('ingest', '_WINDOW_SECONDS'))} seconds",
    f"{words(INGEST_AT_ONCE)} functions work at once",
    {1: "are made every minute"}[infra("ingest", "CLOCK_MINUTES")],
    f"(up to {minutes(ingest_entry.LONGEST_WAIT)}), {ingest_entry.TRIES} times",
    f"`{Outcome.POISON.value}`",
]


def said(page: str) -> str:
    """A page's words, wherever its lines end."""
    return " ".join((DOCS / page).read_text().split())


@pytest.mark.parametrize(
    ("page", "phrase"),
    [
        (page, phrase)
        for page, phrases in (
            ("operations.md", OPERATIONS),
            ("concurrency.md", CONCURRENCY),
            ("deploy.md", DEPLOY),
            ("ingest.md", INGEST),
        )
        for phrase in phrases
    ],
)
def test_a_page_says_what_the_code_does(page: str, phrase: str) -> None:
    assert phrase in said(page)


def test_figures_that_belong_together_do() -> None:
    assert infra("ingest", "TRIES") == ingest_entry.TRIES
    assert patience() > KEPT, "an operation that died fails nobody who waits"
    assert claims.BEAT < claims.LEASE / 2
    assert machine.RENEWAL < machine.LEASE / 2
    assert state_machine.SECONDS >= GRACE / 2, "an execution does not end before its operation's deadline"
    assert 3000 <= longest("Lambda.TooManyRequestsException") <= 3600, "an hour"
    assert longest("BusyError") > state_machine.STEP_SECONDS / 2
    assert again("TurnKeptError") * PATIENT > MAX_HOLD, "a step outlives the turn of a candidate"
    assert store.KEEP > GRACE
