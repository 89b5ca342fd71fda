"""Rights to buckets that somebody else made, of which a deployment may have many.

All policies in a role together may have 10,240 characters, which some 35 buckets would fill. A managed policy may have 6,144, and
10 of them may be attached: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.acknowledged import acknowledge_wildcards

METADATA: Final = "_graveler"
"""The folder of graveler's own files in a namespace, which may be anywhere in a bucket: as
graveler.storage.immutable_files.FOLDER."""

_POLICY_CHARS: Final = 6_144 - 700
"""Of the ARNs in a managed policy: the rest are its actions."""
_ARN_CHARS: Final = len('"arn:aws-us-gov:s3:::/*",')
"""Of an ARN besides the bucket's name, in any partition."""
_STATEMENT_CHARS: Final = 250
"""Of the statement that a folder has besides."""


@dataclass(frozen=True)
class Rights:
    """What may be done with ``places``, buckets (``bucket``) and folders in them (``bucket/folder/``): ``objects`` are actions on
    their objects, ``whole`` those on a bucket itself, ``metadata`` those on graveler's own files besides."""

    places: tuple[str, ...]
    objects: tuple[str, ...]
    whole: tuple[str, ...]
    metadata: tuple[str, ...] = ()


def metadata_of(arn: str) -> list[str]:
    """The objects below the folders of graveler's own files, of a bucket's ARN or one with a folder in it. A ``*`` stands for any
    characters, slashes too: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html"""
    return [f"{arn}/{METADATA}/*", f"{arn}/*/{METADATA}/*"]


class ForeignBuckets(Construct):
    """Managed policies of one stack. Who has the same rights as another has the same policies."""

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        self._made: dict[Rights, list[iam.ManagedPolicy]] = {}

    def policies(self, *rights: Rights) -> list[iam.IManagedPolicy]:
        """Policies that give ``rights``; none for no places."""
        return [policy for each in rights for policy in self._of(each)]

    def _of(self, rights: Rights) -> list[iam.ManagedPolicy]:
        if rights not in self._made:
            self._made[rights] = [self._policy(rights, chunk) for chunk in _chunks(rights)]
        return self._made[rights]

    def _policy(self, rights: Rights, places: Sequence[str]) -> iam.ManagedPolicy:
        arn = f"arn:{Stack.of(self).partition}:s3:::"
        roots = [f"{arn}{place.rstrip('/')}" for place in places]
        statements = [iam.PolicyStatement(actions=list(rights.objects), resources=[f"{root}/*" for root in roots])]
        if rights.metadata:
            files = [name for root in roots for name in metadata_of(root)]
            statements.append(iam.PolicyStatement(actions=list(rights.metadata), resources=files))
        whole = [f"{arn}{place}" for place in places if "/" not in place]
        if whole:
            statements.append(iam.PolicyStatement(actions=list(rights.whole), resources=whole))
        for bucket, folders in _folders(places):
            statements.append(
                iam.PolicyStatement(
                    actions=list(rights.whole),
                    resources=[f"{arn}{bucket}"],
                    # Without IfExists an object that is not there would be one that is forbidden: S3 asks for this right, without
                    # any prefix, before it says 404 (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html).
                    conditions={"StringLikeIfExists": {"s3:prefix": [f"{folder}*" for folder in folders]}},
                )
            )
        number = len(self.node.children) + 1
        policy = iam.ManagedPolicy(
            self, f"Policy{number}", description="graveler: buckets of the settings", statements=statements
        )
        acknowledge_wildcards(policy, statements, "Keys are chosen by whoever writes to these buckets.")
        return policy


def _folders(places: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Of those places that are folders: each bucket, and its folders."""
    parts = sorted(place.split("/", 1) for place in places if "/" in place)
    for bucket, some in groupby(parts, lambda part: part[0]):
        yield bucket, [folder for _, folder in some]


def _chunks(rights: Rights) -> Iterator[list[str]]:
    """The places in groups, each of which fits in a policy that names them twice, and twice more for metadata."""
    chunk: list[str] = []
    chars = 0
    for place in rights.places:
        added = 2 * (_ARN_CHARS + len(place)) + (_STATEMENT_CHARS if "/" in place else 0)
        if rights.metadata:
            added += sum(_ARN_CHARS + len(name) for name in metadata_of(place))
        if chunk and chars + added > _POLICY_CHARS:
            yield chunk
            chunk, chars = [], 0
        chunk.append(place)
        chars += added
    if chunk:
        yield chunk
