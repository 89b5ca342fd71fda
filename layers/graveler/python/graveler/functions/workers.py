"""The workers on long operations in a deployment: the state machine for those in parts, the queue's function for others."""

from graveler.functions.deployment_settings import Configuration
from graveler.functions.executions import ExecutionStarter
from graveler.functions.queue import QueueStarter
from graveler.functions.sqs import SqsQueue
from graveler.functions.step_functions import StateMachine
from graveler.operations.dispatcher import Dispatcher, Starter
from graveler.operations.pinned_requests import REQUESTS
from graveler.retention.operation import ALL_KINDS
from graveler.storage.tables.port import Tables


def dispatcher(tables: Tables, configuration: Configuration) -> Dispatcher:
    """Return a dispatcher to the workers in the configuration; without a state machine, the queue has all kinds. A function
    configured with neither starts no operations, and queries those of others."""
    starters: dict[str, Starter] = {}
    if configuration.operations_queue is not None:
        starters.update(dict.fromkeys(ALL_KINDS, QueueStarter(SqsQueue(configuration.operations_queue))))
    if configuration.operations_machine is not None:
        starters.update(dict.fromkeys(REQUESTS, ExecutionStarter(StateMachine(configuration.operations_machine))))
    return Dispatcher(tables, starters)
