"""The lakes of the SDK's tests."""

from tests.sdk.conftest import endpoint, lake, repo, served_lake
from tests.sql.arrow.kinds import aws_kind, folder_kind, kind, place_on_aws, served_kind, server

__all__ = [
    "aws_kind",
    "endpoint",
    "folder_kind",
    "kind",
    "lake",
    "place_on_aws",
    "repo",
    "served_kind",
    "served_lake",
    "server",
]
