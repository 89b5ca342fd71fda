"""Answers about ingest that a client does not understand."""

import pytest

from graveler.errors import UnavailableError
from graveler.ingest.results import Outcome
from graveler.remote.connection import Connection
from graveler.remote.ingest import RemoteIngest
from tests.remote.scripted import Reply, Scripted


def replayed(outcome: str) -> Reply:
    results = f'[{{"outcome": "{outcome}", "reason": "why"}}]'
    return Reply(201, f'{{"results": {results}, "commits": [], "commits_failed": []}}'.encode())


def test_an_unknown_outcome_is_an_error_with_advice(script: Scripted, connection: Connection) -> None:
    ingest = RemoteIngest(connection)
    script.will(replayed("stale"), replayed("of a later version"))
    (result,) = ingest._replay("repo", ["{}"]).results
    assert (result.outcome, result.reason) == (Outcome.STALE, "why")
    with pytest.raises(UnavailableError, match="check the endpoint"):
        ingest._replay("repo", ["{}"])
