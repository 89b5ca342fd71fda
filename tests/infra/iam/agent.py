"""Part of each function's process in a deployment: notes each call of an AWS client before it is sent.

Python loads it as ``sitecustomize`` (:mod:`tests.infra.iam.recorder` puts it there) before the function's layer is on the path.
So it imports the standard library alone, and waits until somebody else imports botocore. A URL that is presigned is a call too:
whoever uses it does so with the function's rights.
"""

import importlib.machinery
import json
import os
import sys
from typing import Any

_FOLDER = os.environ.get("GRAVELER_IAM_CALLS", "")
_UNTOLD = frozenset(("Body", "MessageBody", "SecretString"))
"""Parameters that no right depends on."""
_PARTLY = {"Item": "P", "ExpressionAttributeValues": ":p"}
"""Of these, rights depend on the partition alone, which graveler.storage.tables.dynamodb names so."""


def note(service: str, operation: str, parameters: Any) -> None:
    """Append a call to this process's file, in one write: the process may be killed at any time."""
    line = {
        "function": os.environ["AWS_LAMBDA_FUNCTION_NAME"],
        "service": service,
        "operation": operation,
        "parameters": _told(parameters),
    }
    descriptor = os.open(f"{_FOLDER}/{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            str(name): _told({_PARTLY[name]: each.get(_PARTLY[name])} if name in _PARTLY else each)
            for name, each in value.items()
            if name not in _UNTOLD
        }
    if isinstance(value, list | tuple):
        return [_told(each) for each in value]
    return value if isinstance(value, str | int | float | None) else repr(type(value))


class _Finder:
    """Finds ``botocore.client`` as everybody does, and watches its clients."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "botocore.client":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def watched(module: Any) -> None:
            load(module)
            emit = module.BaseClient._emit_api_params

            def emitting(client: Any, api_params: Any, operation_model: Any, context: Any) -> Any:
                note(client.meta.service_model.service_name, operation_model.name, api_params)
                return emit(client, api_params, operation_model, context)

            module.BaseClient._emit_api_params = emitting

        spec.loader.exec_module = watched  # type: ignore[method-assign]
        return spec


if _FOLDER and os.environ.get("AWS_LAMBDA_FUNCTION_NAME"):
    sys.meta_path.insert(0, _Finder())
