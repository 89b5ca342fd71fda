"""The lakes of the SDK's tests."""

from tests.sdk.conftest import endpoint, lake, repo, served_lake

__all__ = ["endpoint", "lake", "repo", "served_lake"]
