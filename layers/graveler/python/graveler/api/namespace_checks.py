"""The check of storage namespaces that clients name."""

import re

from graveler.api.call import Call
from graveler.api.errors import bad_request


def check_namespace(call: Call, namespace: str) -> None:
    """Raise a 400 unless the deployment's pattern matches. No request."""
    if not re.match(call.settings.namespace_pattern, namespace):
        raise bad_request(f"storage namespace {namespace[:200]!r} must match {call.settings.namespace_pattern}")
