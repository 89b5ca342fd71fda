"""IDs that the table specification reserves for columns of data and delete files. No schema of a table has them."""

from typing import Final

ROW_ID: Final = 2147483540
"""The number of a row (format version 3)."""
DELETED_POSITION: Final = 2147483545
"""The position of a deleted row, counted from 0, in its data file."""
DELETED_PATH: Final = 2147483546
"""The location of the data file that a deleted row is in."""
