"""Imports over HTTP that trust the size and the time of files."""

import os
from pathlib import Path

from tests.api.support import Client
from tests.api.test_empty_imports import BRANCH, REPO, client, ended

__all__ = ["client"]

TIME = 1_700_000_000_123_456_789


def test_files_are_taken_over_by_size_and_time(client: Client, tmp_path: Path) -> None:
    os.utime(tmp_path / "raw" / "a", ns=(TIME, TIME))
    _, status = ended(client, {tmp_path / "raw": "raw/"}, trust_mtime=True)
    assert status["changes"]["added"] == 1
    assert client("GET", f"{REPO}/refs/main/objects/stat", {"path": "raw/a"}).json()["checksum"] == f"mtime:{TIME}"
    _, status = ended(client, {tmp_path / "raw": "raw/"}, trust_mtime=True)
    assert status["changes"]["unchanged"] == 1
    os.utime(tmp_path / "raw" / "a", ns=(TIME, TIME + 1))
    _, status = ended(client, {tmp_path / "raw": "raw/"}, trust_mtime=True, dry_run=True)
    assert status["changes"]["replaced"] == 1


def test_sources_that_are_no_files_are_refused(client: Client) -> None:
    paths = [{"type": "common_prefix", "path": "mem://bucket/x/", "destination": ""}]
    answer = client("POST", f"{BRANCH}/import", (), {"paths": paths, "trust_mtime": True})
    assert answer.status == 400
    assert "trust_mtime applies only to files" in answer.json()["message"]
