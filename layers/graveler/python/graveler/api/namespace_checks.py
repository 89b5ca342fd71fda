"""The check of storage namespaces that clients name."""

import re
from functools import lru_cache

from graveler.api.call import Call
from graveler.api.errors import bad_request


def check_namespace(call: Call, namespace: str) -> None:
    """Raise a 400 unless the deployment's pattern matches. No request."""
    if not _pattern(call.settings.namespace_pattern).match(namespace):
        raise bad_request(f"storage namespace {namespace[:200]!r} must match {call.settings.namespace_pattern}")


@lru_cache(maxsize=8)
def _pattern(expression: str) -> re.Pattern[str]:
    return re.compile(expression)
