"""Uploads in parts that nobody has completed for a week: their records are removed, and what they left in the store."""

from graveler.lake.objects.upload_records import LIFETIME, UploadRecords
from graveler.storage.objects.port import NotPermittedError, Objects
from graveler.storage.tables.port import ConditionFailedError


def end_abandoned_uploads(records: UploadRecords, objects: Objects, now: float, skew: float) -> int:
    """Remove the records of uploads that were begun too long before ``now`` to be completed, by any clock within ``skew``
    (seconds), and abort the uploads. Return their number. One table read for each thousand records; one table write and one
    object request for each that ends. What may not be aborted is an unfinished upload of the store from then on, which reports
    say."""
    ended = 0
    for record in records.all():
        upload = record.upload
        if record.staged is None and upload.created < now - LIFETIME - skew:
            try:
                records.remove(record)
            except ConditionFailedError:
                continue  # it was completed or aborted in the last moment
            ended += 1
            try:
                objects.abort_multipart(upload.key, upload.store_id)
            except NotPermittedError:
                continue
    return ended
