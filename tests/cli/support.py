"""Running the command in this process, and small trees to run it on."""

import io
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graveler.cli.main import main
from graveler.cli.verbs.imports import IN_PLACE
from graveler.sdk.lake import open_lake


@dataclass(frozen=True)
class Result:
    """What one run of the command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """stdout as a JSON document a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def run(*arguments: object, stdin: bytes = b"") -> Result:
    """Run ``graveler <arguments>`` with streams that are no terminals."""
    saved = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", newline="\n")
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8", newline="\n")
    try:
        code = main([str(argument) for argument in arguments])
        sys.stdout.flush()
        sys.stderr.flush()
        return Result(code, out.getvalue().decode(), err.getvalue().decode())
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved


def done(*arguments: object, stdin: bytes = b"") -> Result:
    """As :func:`run`, of a command that must succeed, and say nothing on stderr, but what each import of a folder says."""
    result = run(*arguments, stdin=stdin)
    imports = arguments[:1] in (("import",), ("demo",))
    message = result.err
    for warning in (f"warning: {IN_PLACE}\n", f"{json.dumps({'warning': {'message': IN_PLACE}})}\n"):
        message = message.removeprefix(warning) if imports else message
    if arguments[:1] == ("demo",):  # the packages of this Python have folders that imports leave out
        message = re.sub(r"\Awarning: left out [\d,]+ files and folders of [^\n]*\n", "", message)
    assert (result.code, message) == (0, ""), (arguments, result)
    return result


def write_tree(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Make files below ``folder``."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


def put(branch: str, path: str, text: str) -> None:
    """Stage a small object on a branch of repository ``lake``."""
    if path.endswith("/"):  # the command line takes it for a folder
        with open_lake() as lake:
            lake.repository("lake").branch(branch).object(path).upload(text)
        return
    done("put", "-", f"lakefs://lake/{branch}/{path}", stdin=text.encode())


def commit(branch: str, message: str) -> str:
    """Commit a branch of repository ``lake``; the commit's ID."""
    made = done("commit", f"lakefs://lake/{branch}", "-m", message, "--json").json["id"]
    assert isinstance(made, str)
    return made


def namespace() -> str:
    """The storage namespace of repository ``lake``."""
    found = done("repo", "show", "lake", "--json").json["namespace"]
    assert isinstance(found, str)
    return found


def files_of(lake: Path) -> Path:
    """Where the files of repository ``lake`` lie, of a lake in this folder."""
    return lake / "objects" / namespace().removeprefix("local://")


def make_conflict() -> None:
    """Branch ``dev`` and ``main`` of repository ``lake`` change a.txt differently; dev removes what main changes, b.txt."""
    for path in ("a.txt", "b.txt", "c.txt"):
        put("main", path, "first")
    commit("main", "Base")
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "a.txt", "dev's")
    done("rm", "lakefs://lake/dev/b.txt")
    commit("dev", "On dev")
    put("main", "a.txt", "main's own")
    put("main", "b.txt", "main's")
    commit("main", "On main")
