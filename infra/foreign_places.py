"""Places in buckets that somebody else made, and in how many policies a role gets its rights to them. Nothing here knows the CDK.

All policies in a role together may have 10,240 characters, which some 35 buckets would fill. A managed policy may have 6,144, and
10 of them may be attached, unless the account has asked for more:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from infra.settings import SettingsError

TABLES: Final = "tables"
"""The folder of tables' files in a namespace: as graveler.tree.record.TABLES."""
METADATA: Final = "_graveler"
"""The folder of graveler's own files in a namespace, which may be anywhere in a bucket: as
graveler.storage.objects.tree_files.FOLDER."""

ATTACHED: Final = 10
"""Managed policies of a role at most."""

_POLICY_CHARS: Final = 6_144 - 700
"""Of the ARNs in a managed policy: the rest are its actions."""
_ARN_CHARS: Final = len('"arn:aws-us-gov:s3:::/*",')
"""Of an ARN besides the bucket's name, in any partition."""
_STATEMENT_CHARS: Final = 250
"""Of the statement that a folder has besides."""


@dataclass(frozen=True)
class Rights:
    """What may be done with ``places``, buckets (``bucket``) and folders in them (``bucket/folder/``): ``objects`` are actions on
    their objects, ``whole`` those on a bucket itself, ``metadata`` those on graveler's own files besides, and ``tables`` those on
    the files of tables."""

    places: tuple[str, ...]
    objects: tuple[str, ...]
    whole: tuple[str, ...]
    metadata: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


def metadata_of(arn: str) -> list[str]:
    """The objects below the folders of graveler's own files, of a bucket's ARN or one with a folder in it. A ``*`` stands for any
    characters, slashes too: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html"""
    return [f"{arn}/{METADATA}/*", f"{arn}/*/{METADATA}/*"]


def tables_of(arn: str) -> str:
    """The objects below the folders of tables' files, of a bucket's ARN or one with a folder in it: each namespace is a folder
    there."""
    return f"{arn}/*/{TABLES}/*"


def split_by_policy(*rights: Rights) -> list[tuple[Rights, list[list[str]]]]:
    """Return the places of all rights of a role, in as many parts each as it takes policies. :class:`SettingsError` if the role
    could not have them all: the deployment would fail at it."""
    parts = [(each, list(_chunks(each))) for each in rights]
    policies = sum(len(chunks) for _, chunks in parts)
    if policies > ATTACHED:
        raise SettingsError(
            f"data_buckets, import_buckets and ingest_buckets take {policies} policies, but a role may have {ATTACHED}: name "
            "fewer buckets, whole buckets instead of folders in them, or one folder above several"
        )
    return parts


def _chunks(rights: Rights) -> Iterator[list[str]]:
    """The places in groups, each of which fits in a policy that names them twice, for metadata twice more, for tables once."""
    chunk: list[str] = []
    chars = 0
    for place in rights.places:
        added = 2 * (_ARN_CHARS + len(place)) + (_STATEMENT_CHARS if "/" in place else 0)
        if rights.metadata:
            added += sum(_ARN_CHARS + len(name) for name in metadata_of(place))
        if rights.tables:
            added += _ARN_CHARS + len(tables_of(place))
        if chunk and chars + added > _POLICY_CHARS:
            yield chunk
            chunk, chars = [], 0
        chunk.append(place)
        chars += added
    if chunk:
        yield chunk
