"""Rights to buckets that somebody else made, of which a deployment may have many: managed policies."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.acknowledged import acknowledge_wildcards
from infra.foreign_places import Rights, metadata_of, split_by_policy, tables_of


class ForeignBuckets(Construct):
    """Managed policies of one stack. Who has the same rights as another has the same policies."""

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        self._made: dict[Rights, list[iam.ManagedPolicy]] = {}

    def policies(self, *rights: Rights) -> list[iam.IManagedPolicy]:
        """Policies that give a role its ``rights``; none for no places. :class:`infra.settings.SettingsError` for more places
        than its policies can name."""
        return [policy for each, chunks in split_by_policy(*rights) for policy in self._of(each, chunks)]

    def _of(self, rights: Rights, chunks: Sequence[Sequence[str]]) -> list[iam.ManagedPolicy]:
        if rights not in self._made:
            self._made[rights] = [self._policy(rights, chunk) for chunk in chunks]
        return self._made[rights]

    def _policy(self, rights: Rights, places: Sequence[str]) -> iam.ManagedPolicy:
        arn = f"arn:{Stack.of(self).partition}:s3:::"
        roots = [f"{arn}{place.rstrip('/')}" for place in places]
        statements = [iam.PolicyStatement(actions=list(rights.objects), resources=[f"{root}/*" for root in roots])]
        if rights.metadata:
            files = [name for root in roots for name in metadata_of(root)]
            statements.append(iam.PolicyStatement(actions=list(rights.metadata), resources=files))
        if rights.tables:
            statements.append(
                iam.PolicyStatement(actions=list(rights.tables), resources=[tables_of(root) for root in roots])
            )
        listed = places if rights.whole else ()
        whole = [f"{arn}{place}" for place in listed if "/" not in place]
        if whole:
            statements.append(iam.PolicyStatement(actions=list(rights.whole), resources=whole))
        for bucket, folders in _folders(listed):
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
