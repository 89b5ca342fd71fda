"""The kinds of lakes."""

from tests.sql.arrow.kinds import aws_kind, folder_kind, kind, place_on_aws, served_kind, server

__all__ = ["aws_kind", "folder_kind", "kind", "place_on_aws", "served_kind", "server"]
