"""The records of uploads in parts: each can be read, lies where lookups find it, and names an address for an object."""

from graveler.errors import CorruptError
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.fsck.history import Damage, unreadable_rest
from graveler.lake.fsck.items import DamagedItem, scan
from graveler.lake.objects.issued_addresses import made_at
from graveler.lake.objects.upload_records import UploadRecords, decode_record
from graveler.storage.tables.port import ConditionFailedError, Item, Key, Matches, Tables

_REMOVE = (
    "The upload cannot be continued, and no garbage may be collected until its record is gone; run again with repair, and start "
    "the upload anew"
)


def check_uploads(tables: Tables, records: UploadRecords, *, repair: bool) -> list[Damage]:
    """Return records that are invalid; with ``repair`` they are removed. What they have in the store then goes with a collection
    of garbage. One table read for each thousand records, and one write for each that is removed."""
    damages = []
    for sort, item in scan(tables, records.partition):
        name = sort.decode("utf-8", "backslashreplace")
        if isinstance(item, DamagedItem) and item.rest:
            damages.append(unreadable_rest(records.partition, repr(name), item))
            continue
        if (reason := _wrong(records, sort, item)) is None:
            continue
        branch, _, path = name.partition("\0")
        subject = f"the upload to {path.partition(chr(0))[0]!r} on branch {branch!r}"
        damage = Damage(FindingKind.UPLOAD, subject, reason, _REMOVE)
        if repair and _removed(tables, Key(records.partition, sort), item):
            damage.mark_repaired("Removed")
        damages.append(damage)
    return damages


def _wrong(records: UploadRecords, sort: bytes, item: Item | DamagedItem) -> str | None:
    """Return why the record is invalid."""
    if isinstance(item, DamagedItem):
        return f"cannot be read: {item.reason}"
    try:
        upload = decode_record(sort, item).upload
    except CorruptError:
        return "has no readable record"
    if records.key_of(upload.branch, upload.path, upload.upload_id).sort != sort:
        return f"belongs to {upload.path!r} on branch {upload.branch!r}, where no lookup finds it"
    return None if made_at(upload.key) is not None else f"names {upload.key!r}, which is no address for an object"


def _removed(tables: Tables, key: Key, item: Item | DamagedItem) -> bool:
    """Remove the record, if it is as it was read."""
    try:
        tables.delete(key, None if isinstance(item, DamagedItem) else Matches(dict(item)))
    except (ConditionFailedError, CorruptError):
        return False
    return True
