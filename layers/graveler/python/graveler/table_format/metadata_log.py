"""The log of a table's former metadata files: ``metadata-log``."""

from collections.abc import Iterable
from typing import Final

from graveler.table_format.common_updates import number_property
from graveler.table_format.plain_documents import Document

_LENGTH_PROPERTY: Final = "write.metadata.previous-versions-max"
_DEFAULT_LENGTH: Final = 100


def extend_metadata_log(log: Iterable[Document], entry: Document, properties: Document) -> list[Document]:
    """Return the log with one more entry: of all these its newest, as many as the table's properties allow, but at least one.

    Raises :class:`~graveler.errors.InvalidError` if the property is no number.
    """
    length = number_property(properties, _LENGTH_PROPERTY, _DEFAULT_LENGTH)
    return [*log, entry][-max(1, length) :]
