"""The checks that graveler runs itself: verdicts that are there are used again, the others are made.

A verdict is kept under the digest of the check's definition, the version of its kind, and exactly what it reads. So after a move
of the branch only those checks run again that read what moved. A check that reads the outside always runs.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from math import inf
from typing import Any, Final

import msgspec

from graveler.errors import GravelerError, InvalidError
from graveler.lake.clock import Clock
from graveler.lake.gates.checks import builtin, object_contents
from graveler.lake.gates.checks.check_settings import CheckSettings, settings_of_process
from graveler.lake.gates.checks.definitions import (
    VERSIONS,
    AddressesCheck,
    CommandCheck,
    Definition,
    FormatsCheck,
    HiddenKeysCheck,
    LambdaCheck,
    LimitsCheck,
    LiveUploadsCheck,
    MetadataCheck,
    NoDeletesCheck,
    Reads,
    SchemaCheck,
    SqlCheck,
    WebhookCheck,
    check_digest,
    definition_of,
    reads_of,
)
from graveler.lake.gates.checks.inputs import CheckInput
from graveler.lake.gates.checks.outcomes import CheckOutcomes, Claim
from graveler.lake.gates.checks.verdicts import Verdict, bounded
from graveler.lake.gates.statuses import GRAVELER
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, CommitID, MetarangeName, Status, StatusState
from graveler.system.daemon_pool import DaemonPool
from graveler.system.forks import new_lock

AT_ONCE: Final = 4
"""The number of checks of one candidate that run at the same time. A query has a process of its own, with up to a gigabyte."""
_PAUSE: Final = 1.0
"""Seconds between two questions whether to go on."""
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def check_definition(document: Mapping[str, Any], settings: CheckSettings | None = None) -> None:
    """Check that a rule can have this definition; :class:`InvalidError` for one that can never be run. Without ``settings`` those
    of this process count. No request; for a check of SQL a process, 0.3 s, or a call of the deployment's function."""
    definition = definition_of(document)
    settings = settings_of_process() if settings is None else settings
    definition.check(settings)
    if isinstance(definition, SqlCheck) and settings.function is not None:
        from graveler.lake.gates.checks.elsewhere import expect_query_elsewhere  # only in a deployment

        expect_query_elsewhere(definition, settings.function)
    elif isinstance(definition, SqlCheck):
        from graveler.lake.gates.checks.sql import expect_query  # starts a process

        expect_query(definition)


def run_checks(
    repository: RepositoryParts,
    candidate: Commit,
    base: Commit | None,
    definitions: Mapping[str, Mapping[str, Any]],
    stop: Callable[[], None] = lambda: None,
    settings: CheckSettings | None = None,
) -> dict[str, Status]:
    """Return the statuses of checks, by name in the order of ``definitions``, for a candidate that is to follow ``base``, the
    commit that its branch has now (None: none). A status is that of the candidate's tree if its check reads nothing else, and
    else that of the commit alone. Up to :data:`AT_ONCE` checks run at the same time.

    ``stop`` is called between steps, by one thread at a time, every second at most; it raises if nobody needs the statuses any
    more, and the exception ends all checks. ``settings`` are those of the process, if none are given. A check that cannot be made
    is an ``error`` with the reason. Cost: the records that a check reads, for the digest; one table read for a verdict that is
    there, else 3 table requests and the run.
    """
    ending = _Stop(stop, repository.clock)
    source = CheckInput(
        repository, candidate, base, settings_of_process() if settings is None else settings, ending.ask
    )
    outcomes = CheckOutcomes(repository.tables, repository.uid, repository.clock, repository.leases)

    def make(name: str) -> Status:
        return _make(name, definitions[name], source, outcomes)

    try:
        if len(definitions) == 1:
            return {name: make(name) for name in definitions}
        with DaemonPool(AT_ONCE, "graveler-checks") as pool:
            try:
                running = {name: pool.submit(make, name) for name in definitions}
                return {name: status.result() for name, status in running.items()}
            except BaseException as error:
                ending.end(error)  # the other checks
                raise
    except _StoppedError as stopped:
        raise stopped.reason from None


def make_check(
    repository: RepositoryParts, candidate: Commit, base: Commit | None, name: str, definition: Definition
) -> Verdict:
    """Make one check in this process, whatever verdicts there are, by the settings of this process, and keep nothing. Cost: as
    the check. A check that cannot be made is an ``error`` with the reason."""
    return _run(name, definition, CheckInput(repository, candidate, base, settings_of_process(), lambda: None))


def _make(name: str, document: Mapping[str, Any], source: CheckInput, outcomes: CheckOutcomes) -> Status:
    """Return the status of one check, made now unless its verdict is there."""
    source.stop()
    try:
        definition = definition_of(document)
    except InvalidError as error:  # set by a later version
        verdict = _bounded(Verdict(StatusState.ERROR, str(error)), source)
        return _status(name, document, verdict, source, of_tree=False)
    reads = reads_of(definition)
    return _status(name, document, _verdict(name, definition, reads, source, outcomes), source, of_tree=reads.of_tree)


def _status(name: str, document: Mapping[str, Any], verdict: Verdict, source: CheckInput, *, of_tree: bool) -> Status:
    """Return the verdict of the check in this document as a status."""
    base = MetarangeName("") if source.base is None else source.base.metarange
    return Status(
        name,
        verdict.state,
        verdict.words,
        verdict.url,
        by=GRAVELER,
        principal=GRAVELER,
        created=int(source.repository.clock.now()),
        commit_id=CommitID("") if of_tree else source.candidate.id,
        check=check_digest(document, None if of_tree else base),
    )


class _StoppedError(Exception):
    """The checks are to end for this reason; nothing that catches the errors of a check may take it for one."""

    def __init__(self, reason: BaseException) -> None:
        self.reason = reason
        super().__init__(str(reason))


class _Stop:
    """A caller's question whether to go on, whose answer no check can take for its own error. It may be a request, so it is
    asked every :data:`_PAUSE` seconds at most. Safe to share between threads: what ends one check ends all."""

    def __init__(self, stop: Callable[[], None], clock: Clock) -> None:
        self._stop = stop
        self._clock = clock
        self._next = -inf
        self._lock = new_lock()
        self._reason: BaseException | None = None

    def ask(self) -> None:
        """Ask the caller; :class:`_StoppedError` from the first refusal on."""
        with self._lock:
            now = self._clock.monotonic()
            if self._reason is None and now >= self._next:
                self._next = now + _PAUSE
                try:
                    self._stop()
                except Exception as error:  # noqa: BLE001 - it is raised below, in each thread
                    self._reason = error
        if self._reason is not None:
            raise _StoppedError(self._reason) from self._reason

    def end(self, reason: BaseException) -> None:
        """End all checks for this reason, unless they are ended for another one."""
        with self._lock:
            self._reason = self._reason or reason


def _verdict(name: str, definition: Definition, reads: Reads, source: CheckInput, outcomes: CheckOutcomes) -> Verdict:
    """Return the verdict that is there, or make the check."""
    function = source.settings.function if isinstance(definition, SqlCheck | LambdaCheck) else None
    if reads.outside and function is None:
        return _run(name, definition, source)
    try:
        digest = _digest(definition, reads, source)
    except GravelerError as error:
        return _bounded(Verdict(StatusState.ERROR, f"what the check reads cannot be read: {error}"), source)
    if function is not None:
        from graveler.lake.gates.checks.elsewhere import run_elsewhere  # only in a deployment

        if reads.outside:
            digest = sha256(_encode([source.candidate.id, name, digest.hex()])).digest()
        return run_elsewhere(function, name, definition, digest, source, outcomes, lasting=not reads.outside)
    with outcomes.claimed(digest, source.stop) as claim:
        if not isinstance(claim, Claim):
            return claim
        verdict = _run(name, definition, source)
        lasting = (StatusState.SUCCESS,) if reads.clock else (StatusState.SUCCESS, StatusState.FAILURE)
        if verdict.state in lasting:
            claim.finish(verdict)
        return verdict


def _digest(definition: Definition, reads: Reads, source: CheckInput) -> bytes:
    """Return the digest of all on which a verdict depends."""
    text = _encode(definition)
    version = VERSIONS[str(definition.__struct_config__.tag)]
    return sha256(b"%d %d %s" % (version, len(text), text) + source.digest(reads)).digest()


def _run(name: str, definition: Definition, source: CheckInput) -> Verdict:
    """Make the check."""
    try:
        return _bounded(_check(name, definition, source), source)
    except GravelerError as error:
        return _bounded(Verdict(StatusState.ERROR, f"the check could not be made: {error}"), source)


def _bounded(verdict: Verdict, source: CheckInput) -> Verdict:
    """Return the verdict with words that are bounded and without the secrets of this process."""
    return Verdict(verdict.state, bounded(source.masked(verdict.words)), source.masked(verdict.url))


def _check(name: str, definition: Definition, source: CheckInput) -> Verdict:
    """Make the check by the function of its kind. Those of rare kinds are imported where they are needed."""
    match definition:
        case SqlCheck():
            from graveler.lake.gates.checks.sql import check_sql

            return check_sql(definition, source)
        case SchemaCheck():
            return object_contents.check_schema(definition, source)
        case FormatsCheck():
            return object_contents.check_formats(definition, source)
        case LimitsCheck():
            return builtin.check_limits(definition, source)
        case NoDeletesCheck():
            return builtin.check_no_deletes(definition, source)
        case MetadataCheck():
            return builtin.check_metadata(definition, source)
        case HiddenKeysCheck():
            return builtin.check_hidden_keys(definition, source)
        case AddressesCheck():
            return builtin.check_addresses(definition, source)
        case LiveUploadsCheck():
            return builtin.check_live_uploads(definition, source)
        case WebhookCheck():
            from graveler.lake.gates.checks.webhook import check_webhook

            return check_webhook(definition, source, name)
        case CommandCheck():
            from graveler.lake.gates.checks.command import check_command

            return check_command(definition, source, name)
        case LambdaCheck():
            from graveler.lake.gates.checks.lambda_function import check_lambda

            return check_lambda(definition, source, name)
