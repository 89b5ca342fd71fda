"""Assemblies, synthesised once for all tests of a process."""

from pathlib import Path
from typing import Any

import pytest

from tests.infra.tools import require_tools, synthesise, templates


@pytest.fixture(scope="session")
def default_assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What somebody deploys who changes nothing."""
    return _assembly(tmp_path_factory.mktemp("default"))


@pytest.fixture(scope="session")
def full_assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every option."""
    return _assembly(
        tmp_path_factory.mktemp("full"),
        shared_cache=True,
        tracing=True,
        data_buckets=["first-bucket", "second-bucket"],
        cors_origins=["https://example.org"],
        alarm_email="on-call@example.org",
        reserved_concurrency=10,
        removal="destroy",
    )


@pytest.fixture(scope="session")
def default(default_assembly: Path) -> dict[str, dict[str, Any]]:
    """Templates of the default deployment."""
    return templates(default_assembly)


@pytest.fixture(scope="session")
def full(full_assembly: Path) -> dict[str, dict[str, Any]]:
    """Templates with every option."""
    return templates(full_assembly)


def _assembly(into: Path, **settings: Any) -> Path:
    require_tools()
    done = synthesise(into, **settings)
    # cdk-nag's findings that nobody acknowledged end the synthesis.
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return into
