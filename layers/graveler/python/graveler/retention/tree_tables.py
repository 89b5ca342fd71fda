"""Opening the files of trees for the collector: only an intact file that is the one of its name may decide what is garbage."""

from collections.abc import Iterator
from contextlib import contextmanager

from graveler.errors import UNREADABLE, DamagedFileError
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.storage.objects.tree_files import FOLDER as FILES
from graveler.tree.recomputed_name import expect_name
from graveler.tree.sstable import MalformedTableError, Table
from graveler.tree.store import expect_label, wrong_with


@contextmanager
def tree_table(objects: Objects, kind: str, name: str) -> Iterator[Table]:
    """Open the file of this kind and name, for as long as it is read. Without a label its digest is checked: 3 µs a record, once
    in its life. One object read. :class:`DamagedFileError` if it is missing, another one, or if opening or reading shows damage:
    then nothing must be collected."""
    try:
        table = Table(objects.get(f"{FILES}/{kind}/{name}"))
        expect_label(table, kind, name)
        if table.label is None:
            expect_name(table, name)
        yield table
    except ObjectMissingError:
        raise DamagedFileError(kind[:-1], name, "is missing, so nothing was collected") from None
    except MalformedTableError as error:
        raise DamagedFileError(kind[:-1], name, f"{wrong_with(error)}, so nothing was collected") from None
    except UNREADABLE as error:
        raise DamagedFileError(kind[:-1], name, f"cannot be read ({error}), so nothing was collected") from None
