"""The kinds of lakes."""

from tests.arrow.kinds import aws_kind, folder_kind, kind, place_on_aws, served_kind, server

__all__ = ["aws_kind", "folder_kind", "kind", "place_on_aws", "served_kind", "server"]
