"""Requests made from the OpenAPI document by schemathesis: no answer is a 5xx, and the document describes each one.

``GRAVELER_FUZZ_EXAMPLES`` is the number of requests for each operation.
"""

import json
import os
from collections.abc import Callable
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from graveler.api.openapi import openapi_json
from tests.clients.support import Served, Wire, new_name

EXAMPLES: Final = int(os.environ.get("GRAVELER_FUZZ_EXAMPLES", "2"))
NOT_TO_BE_HIT: Final = ("deleteRepository",)
"""Operations that would take the repository away from the others."""

SCHEMA: Final = schemathesis.openapi.from_dict(json.loads(openapi_json()))
CHECKS: Final = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
load_all_checks()


@pytest.fixture(scope="module")
def there(served: Served) -> dict[str, str]:
    """What path parameters can name, so that requests get beyond a 404."""
    wire = Wire(served)
    name = new_name()
    base = f"/repositories/{name}"
    wire("POST", "/repositories", "", {"name": name, "storage_namespace": f"local://{name}"}).expect(201)
    for number in range(3):
        wire("POST", f"{base}/branches/main/objects", {"path": f"dir/{number}"}, b"bytes").expect(201)
    wire("POST", f"{base}/branches/main/commits", "", {"message": "m"}).expect(201)
    wire("POST", f"{base}/branches", "", {"name": "b", "source": "main"}).expect(201)
    wire("POST", f"{base}/tags", "", {"id": "t", "ref": "main"}).expect(201)
    wire.close()
    refs = dict.fromkeys(("ref", "left", "right", "source", "commit", "commit_id"), "main")
    return {**refs, "repository": name, "branch": "main", "destination": "b", "tag": "t"}


FRAMING = ("content-length", "transfer-encoding")
"""Headers that are not for the application: what is wrong with them the HTTP library answers, without a body."""


@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES < 100,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_one_that_the_document_describes(
    case: Any, served: Served, there: dict[str, str], record_property: Callable[[str, object], None]
) -> None:
    operation = case.operation.definition.raw["operationId"]
    for name, value in (case.path_parameters or {}).items():
        # Half of the requests name what is there.
        if name in there and len(str(value)) % 2 == 0 and operation not in NOT_TO_BE_HIT:
            case.path_parameters[name] = there[name]
    for name in [name for name in case.headers or {} if name.lower() in FRAMING]:
        del case.headers[name]
    answer = case.call(base_url=served.api, auth=(served.key_id, served.secret), allow_redirects=False)
    record_property("fuzzed", answer.status_code)
    assert answer.status_code < 500 or answer.status_code == 501, answer.text
    case.validate_response(answer, checks=CHECKS)
