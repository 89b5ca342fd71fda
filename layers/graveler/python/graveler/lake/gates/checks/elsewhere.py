"""Checks that a deployment makes in a function of their own, by executions of a state machine (``docs/design/0023-gates.md``).

A function that changes a branch may run for less time than such a check takes, and has no DuckDB. It starts an execution, which
runs the check and keeps the verdict in the table, and looks there as long as its own time lasts. The same request later finds the
verdict, or goes on waiting. A run that ends without a verdict is an error with the reason, never a pass.
"""

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, InvalidError, UnavailableError
from graveler.lake.gates.checks.check_settings import CheckFunction
from graveler.lake.gates.checks.definitions import Definition, SqlCheck
from graveler.lake.gates.checks.inputs import CheckInput
from graveler.lake.gates.checks.outcomes import CheckOutcomes
from graveler.lake.gates.checks.verdicts import Verdict

_PARSE_SECONDS = 25


class RunTask(Struct, frozen=True):
    """The input of an execution: the check ``name`` with its ``definition``, of the commits with these IDs (``base`` is empty
    for none); ``key`` (hexadecimal) and ``run`` say where its verdict is kept, ``lasting`` whether others may use it, too."""

    repository: str
    candidate: str
    base: str
    name: str
    definition: Definition
    key: str
    run: str
    lasting: bool


class Parsed(Struct, frozen=True):
    """The response about a query: the sentence of its refusal, empty if it can be run."""

    error: str = ""


def run_elsewhere(
    function: CheckFunction,
    name: str,
    definition: Definition,
    key: bytes,
    source: CheckInput,
    outcomes: CheckOutcomes,
    *,
    lasting: bool,
) -> Verdict:
    """Return the verdict under ``key``, after an execution has made the check if there is none. One table read; for a check that
    is made two writes, a request that starts it, and a read each half second."""
    from graveler.storage.executions import start_execution  # boto3

    def start(run: str) -> None:
        task = RunTask(
            source.repository.name,
            source.candidate.id,
            "" if source.base is None else source.base.id,
            name,
            definition,
            key.hex(),
            run,
            lasting,
        )
        start_execution(function.machine, run, msgspec.json.encode(task).decode())

    return outcomes.of_run(key, start, source.stop)


def expect_query_elsewhere(definition: SqlCheck, function: CheckFunction) -> None:
    """:class:`InvalidError` unless the function can parse the query. One call of it. :class:`UnavailableError`."""
    from graveler.storage.lambda_functions import invoke  # boto3

    payload = msgspec.json.encode({"step": "parse", "query": definition.query})
    result = invoke(function.name, payload, _PARSE_SECONDS)
    if result.failed:
        raise UnavailableError(
            f"the query of a check cannot be looked at, as function {function.name!r} failed: "
            f"{result.payload.decode(errors='replace')[:500]}; its log says more"
        )
    try:
        parsed = msgspec.json.decode(result.payload, type=Parsed)
    except UNREADABLE as error:
        raise UnavailableError(f"the response of function {function.name!r} cannot be read: {error}") from error
    if parsed.error:
        raise InvalidError(parsed.error)
