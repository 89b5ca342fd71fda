"""Requests to other services are given up within seconds, with an error that says so."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from graveler.errors import UnavailableError
from graveler.functions import clients
from graveler.functions.executions import ExecutionStarter
from graveler.functions.queue import QueueStarter
from graveler.functions.sqs import SqsQueue
from graveler.functions.step_functions import StateMachine
from graveler.operations.dispatcher import Starter
from graveler.operations.store import Operation, OperationState
from tests.support.shell import Shell

OPERATION = Operation("0" * 32, "merge", b"{}", OperationState.RUNNING, 1.0, 1.0, attempt=1)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> Iterator[socket.socket]:
    """A service that takes connections and never answers."""
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "eu-west-1"}.items():
        shell.export(f"AWS_{name}", value)
    monkeypatch.setattr(clients, "ANSWER_SECONDS", 0.01)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        shell.export("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield server


@pytest.mark.parametrize(
    "starter",
    [
        QueueStarter(SqsQueue("http://127.0.0.1/queue")),
        ExecutionStarter(StateMachine("arn:aws:states:eu-west-1:1:stateMachine:m")),
    ],
)
def test_a_service_that_hangs_is_given_up_after_some_attempts(silent: socket.socket, starter: Starter) -> None:
    with pytest.raises(UnavailableError, match="no worker could be notified"):
        starter.begin("sales", OPERATION)
    silent.settimeout(0)
    connections = 0
    while True:
        try:
            silent.accept()[0].close()
        except BlockingIOError:
            break
        connections += 1
    assert connections == clients.ATTEMPTS
