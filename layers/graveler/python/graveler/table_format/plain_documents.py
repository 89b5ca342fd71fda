"""Metadata documents: plain JSON, so that fields that this version does not know survive."""

from collections.abc import Callable
from typing import Any

Document = dict[str, Any]
"""A JSON object: a table's metadata, a schema, a snapshot. Whoever changes one copies it first: documents are shared."""

ReadFile = Callable[[str], bytes]
"""Returns the bytes of the file at a location, as a metadata document or a manifest list names it. One read of the store."""
