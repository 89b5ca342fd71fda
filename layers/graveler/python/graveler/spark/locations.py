"""The location of a lake, from Spark's options, and the parts of it that tasks open.

The driver opens the lake: its table, and the object store. Tasks read and write files of trees, so they get the object store
alone (:func:`task_store`) and need no permission for the table. Credentials are never sent: the driver and each executor find
their own, as AWS's tools do (environment, web identity, the role of the EMR job).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from graveler.errors import InvalidError
from graveler.lake.opening.location import LakeLocation
from graveler.location.environment import Named, ServedLake, find_lake, find_location
from graveler.runtime.local import LocalRuntime
from graveler.storage.objects.port import Objects
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.tree.range_notes import NoNotes
from graveler.tree.store import TreeStore

if TYPE_CHECKING:
    from graveler.storage.objects.s3 import S3Settings

TASK_MEMORY: Final = 48 << 20
"""Bytes of tree files that a task caches."""

_WRITES_AT_ONCE: Final = 4
"""Files that a task is writing to the object store while it makes the next one."""

LOCATION_OPTIONS: Final = ("lake", "tables", "objects", "region", "s3_endpoint_url", "dynamodb_endpoint_url")
"""The options of :func:`location_of`."""

S3_OPTIONS: Final = ("region", "s3_endpoint_url")
"""The options of :func:`s3_settings`."""

ENDPOINT: Final = "endpoint"
KEY_SECRET: Final = "access_key_secret"
"""An additional option of :func:`served_location_of`."""


def location_of(options: Mapping[str, object]) -> LakeLocation:
    """Return the location that options name, for :func:`graveler.lake.opening.location.open_at`: ``lake``, a folder or
    ``dynamodb://table``; or ``tables``, with ``objects``, and ``region``, ``s3_endpoint_url`` and ``dynamodb_endpoint_url`` if
    needed. Other options, and empty ones, are ignored; like Spark's own, they may have any case. The environment provides the
    rest.

    Picklable. :class:`graveler.errors.InvalidError` if they name two locations, or half of one;
    :class:`graveler.errors.NotFoundError` if nothing names one.
    """
    settings = {name.lower(): str(value) for name, value in options.items() if value}
    named: dict[str, Any] = {name: settings[name] for name in LOCATION_OPTIONS if name in settings}
    if "://" not in (folder := named.get("lake", "://")):
        named["lake"] = str(Path(folder).expanduser().absolute())  # a task may have another working folder
    return find_location(Named(**named))


class Files(Protocol):
    """The location of a repository's files: ``namespace``, and the collector's ``grace`` period in seconds."""

    namespace: Objects
    grace: float


def s3_settings(options: Mapping[str, object]) -> "S3Settings":
    """Return the settings of S3: ``region`` and ``s3_endpoint_url`` of these options, else those of the environment."""
    from graveler.storage.objects.s3 import S3Settings  # botocore: not for lakes in folders

    settings = {name.lower(): str(value) for name, value in options.items() if value}
    environ = os.environ
    endpoint = settings.get("s3_endpoint_url") or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    return S3Settings(settings.get("region"), endpoint or None)


def is_served(lake: str) -> bool:
    """Return whether a lake's name is the URL of a server. No request."""
    return lake.startswith(("http://", "https://"))


def served_location_of(options: Mapping[str, object]) -> LakeLocation | ServedLake:
    """Return a location as :func:`location_of`, for jobs that also run with a server: the one named by ``endpoint``, or the
    environment. ``access_key_secret`` names the secret in AWS Secrets Manager that holds the access key; cost and errors then
    include those of :func:`graveler.spark.secrets.access_key`. :class:`graveler.errors.ForbiddenError` for a server without an
    access key; :class:`graveler.errors.InvalidError` for a secret without a server."""
    endpoint = str(options.get(ENDPOINT) or "")
    named = str(options.get("lake") or "")
    secret_name = str(options.get(KEY_SECRET) or "")
    key = None
    if secret_name:
        from graveler.spark.secrets import access_key  # boto3: not for keys in the environment

        key = access_key(secret_name, str(options.get("region") or "") or None)
    location: LakeLocation | ServedLake
    if endpoint or is_served(named):
        location = find_lake(Named(endpoint=endpoint or named, key=key))
    elif any(options.get(name) for name in LOCATION_OPTIONS[:3]):
        location = location_of(options)
    else:
        location = find_lake(Named(key=key))
    if isinstance(location, ServedLake):
        return location
    if secret_name:
        raise InvalidError(
            f"{KEY_SECRET} {secret_name!r} is only for a server; name one with {ENDPOINT}, or leave the secret out"
        )
    return location_of(options)


def task_store(repository: Files) -> TreeStore:
    """Return the store in which tasks read and write the files of the repository's trees. Picklable; it creates its clients in
    each process, and has neither the driver's table nor its cache."""
    files = ImmutableFiles(repository.namespace, None, repository.grace)
    store = TreeStore(files, LocalRuntime(writes_at_once=_WRITES_AT_ONCE), notes=NoNotes())
    store.limit(TASK_MEMORY)
    return store
