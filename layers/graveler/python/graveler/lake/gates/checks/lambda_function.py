"""Checks by functions of AWS Lambda: entries of the lake's own settings, which rules can only name."""

import json
from functools import partial

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, InvalidError
from graveler.lake.gates.checks.definitions import LambdaCheck
from graveler.lake.gates.checks.inputs import CheckInput
from graveler.lake.gates.checks.verdicts import Verdict
from graveler.lake.gates.checks.waiting import in_time
from graveler.lake.gates.statuses import check_status
from graveler.model import Status, StatusState


class _Response(Struct, frozen=True):
    """The response of such a function."""

    state: StatusState
    description: str = ""
    url: str = ""


def check_lambda(definition: LambdaCheck, source: CheckInput, check: str) -> Verdict:
    """Call the function with the document about the candidate; it returns ``{"state": "success", "description": …, "url": …}``.
    ``failure`` and ``error`` are what they say, ``pending`` means that a status follows; any other response is an error."""
    name = source.settings.lambdas.get(definition.name)
    if name is None:
        raise InvalidError(f"the settings of checks have no lambda {definition.name!r} any more; add it again")
    from graveler.storage.lambda_functions import invoke  # boto3

    payload = json.dumps(source.document(check)).encode()
    result = in_time(partial(invoke, name, payload, definition.seconds), definition.seconds + 5, source.stop)
    if result is None:
        return Verdict(StatusState.ERROR, f"function {name!r} did not answer within {definition.seconds} seconds")
    if result.failed:
        return Verdict(StatusState.ERROR, f"function {name!r} failed: {result.payload.decode(errors='replace')}")
    try:
        response = msgspec.json.decode(result.payload, type=_Response)
        check_status(Status("check", response.state, url=response.url))
    except (InvalidError, *UNREADABLE) as error:
        return Verdict(StatusState.ERROR, f"the response of function {name!r} is not that of a check: {error}")
    return Verdict(response.state, response.description, response.url)
