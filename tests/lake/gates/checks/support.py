"""Builders for tests of checks: candidates as commits of a world's repository, and the verdict of one check about them."""

import os
import select
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from graveler.lake.gates.checks.check_settings import CheckSettings
from graveler.lake.gates.checks.run import run_checks
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, Status, StatusState
from tests.lake.support import World

SUCCESS, FAILURE, ERROR, PENDING = StatusState.SUCCESS, StatusState.FAILURE, StatusState.ERROR, StatusState.PENDING


def commit_bytes(
    repository: OpenRepository, files: Mapping[str, bytes | None], metadata: Mapping[str, str] | None = None
) -> Commit:
    """Commit these objects; None deletes."""
    for path, data in files.items():
        if data is None:
            repository.delete("main", [path])
        else:
            repository.upload("main", path, data)
    return repository.commit("main", "m", metadata=metadata or {})


def has_ended(process: Path) -> bool:
    """Return whether the process whose ID is in this file has ended, or does so within a minute, after it was killed."""
    try:
        descriptor = os.pidfd_open(int(process.read_text()))
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 60)[0])
    finally:
        os.close(descriptor)


class Checked:
    """A world whose last commit is the candidate, and the one before its base."""

    def __init__(self) -> None:
        self.world = World()
        self.base: Commit | None = None
        self.candidate = self.world.main.commit_of("main")

    def commit(self, files: Mapping[str, bytes | None], metadata: Mapping[str, str] | None = None) -> "Checked":
        """Make the next candidate, whose base is the last one."""
        self.base, self.candidate = self.candidate, commit_bytes(self.world.main, files, metadata)
        return self

    def status(
        self,
        kind: str,
        *,
        settings: CheckSettings | None = None,
        stop: Callable[[], None] = lambda: None,
        repository: OpenRepository | None = None,
        **fields: Any,
    ) -> Status:
        """Return the status of a check about the candidate."""
        parts = (repository or self.world.main).parts
        definitions = {"check": {"kind": kind, **fields}}
        return run_checks(parts, self.candidate, self.base, definitions, stop, settings or CheckSettings())["check"]
