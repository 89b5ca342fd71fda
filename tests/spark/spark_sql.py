"""Spark in a process of its own, which runs statements on branches of a served lake."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.clients.support import Served

_ROOT = Path(__file__).resolve().parents[2]


class StatementError(Exception):
    """A statement that Spark refused."""


class SparkSql:
    """Spark with branches as catalogs, each by its name. Use as a context; its log is a file."""

    def __init__(self, served: Served, repository: str, *branches: str, log: Path, java_options: str = "") -> None:
        command = [sys.executable, "-m", "tests.spark.sql_driver", java_options, f"{served.url}/iceberg"]
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, served.key_id, served.secret, repository, *branches],
                cwd=_ROOT,
                env={name: text for name, text in os.environ.items() if not name.startswith("AWS_")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # so that a kill ends Java, too
            )

    def __enter__(self) -> "SparkSql":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        self._process.communicate()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows that a statement answers. :class:`StatementError`; :class:`EOFError` if Spark was killed."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # then there is no answer
            self._process.stdin.write(json.dumps(statement) + "\n")
            self._process.stdin.flush()
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise EOFError(self._log.read_text()[-4000:])
        answer = json.loads(line)
        if "error" in answer:
            raise StatementError(answer["error"])
        return [tuple(row) for row in answer["rows"]]

    def kill(self) -> None:
        """Kill Spark and its Java at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
