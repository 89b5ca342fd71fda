"""The demo's plot: the commands in order, and what must hold after each of them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graveler.cli.demo.stage import Stage
from graveler.cli.local_files import files_below
from graveler.cli.locations import LAKE
from graveler.errors import InvalidError
from graveler.values.ignore_rules import FolderRules

if TYPE_CHECKING:
    from graveler.lake.repository import OpenRepository

REPOSITORY: Final = "demo"
_URI: Final = f"lakefs://{REPOSITORY}"
_BRANCH: Final = "experiment"
_ON_BRANCH: Final = "changed on the branch"
_ON_MAIN: Final = "changed on main"
_README: Final = f"{_BRANCH}/README.txt"
_TEXTS: Final = (".md", ".rst", ".txt"), (".csv", ".json", ".toml", ".py")
"""Endings of readable text files, the preferred ones first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The use of the existing files: ``contested`` changes on both sides, ``removed`` is removed, with everything below it if it
    ends with a slash. Paths relative to ``source``; ``prefix`` is their location in the repository."""

    source: Path
    files: tuple[str, ...]
    prefix: str
    contested: str
    removed: str


def make_plan(source: Path) -> Plan:
    """Choose among the files of a folder. :class:`InvalidError` if it has fewer than two."""
    files = tuple(relative for _, relative in files_below(source, rules=FolderRules.of()))  # as the import takes them
    if len(files) < 2:
        raise InvalidError(f"{str(source)!r} contains {len(files)} files; the demo needs at least two")
    contested = _to_contest(source, files)
    return Plan(source, files, f"{source.resolve().name or 'files'}/", contested, _to_remove(files, contested))


def begin(stage: Stage, plan: Plan, lake: Path, typed_lake: str) -> "tuple[OpenRepository, set[str]]":
    """Create the lake and import the files. Return the repository, and the objects' paths without the prefix."""
    with stage.step("Create a lake and a repository", "A lake is a folder: a SQLite table and the objects next to it."):
        stage.run("init", typed_lake)
        stage.set_variable(LAKE, typed_lake)
        stage.run("repo", "create", _URI)
    repository = _open(lake)

    with stage.step("Import a real tree", "Each file is read once, and stays where it is."):
        stage.run("import", str(plan.source), f"{_URI}/main/{plan.prefix}", "-m", f"Import {plan.source.name}")
        objects = {entry.path.removeprefix(plan.prefix) for entry in repository.objects("main")}
        # A file may come or go during the import: the current state of the disk counts.
        missing = [file for file in plan.files if file not in objects and (plan.source / file).exists()]
        strange = [path for path in objects if not (plan.source / path).exists()]
        stage.check(not missing, f"{missing[:3]} are on the disk but not in the lake")
        stage.check(not strange, f"{strange[:3]} are in the lake but not on the disk")
        original = (plan.source / plan.contested).read_bytes()
        stage.check(
            _read(repository, "main", plan.prefix + plan.contested) == original,
            f"{plan.contested} differs from the file",
        )
    return repository, objects


def play(stage: Stage, plan: Plan, lake: Path, typed_lake: str) -> None:
    """Run the whole story. ``typed_lake`` is the lake's folder as a user would type it."""
    contested = plan.prefix + plan.contested
    original = (plan.source / plan.contested).read_bytes()

    repository, objects = begin(stage, plan, lake, typed_lake)
    removals = sum(1 for path in objects if _is_below(path, plan.removed))
    imported = repository.commit_of("main").id

    with stage.step("Branch", "A second branch with all those objects costs one row in a table."):
        stage.run("branch", "create", f"{_URI}/{_BRANCH}", "--source", "main")
        stage.check(repository.commit_of(_BRANCH).id == imported, "the branch does not point to main's commit")

    with stage.step(
        "Change things on the branch", "Add one object, overwrite one, remove some: staged, not committed."
    ):
        stage.run("put", "-", f"{_URI}/{_BRANCH}/{_README}", stdin="graveler was here")
        stage.run("put", "-", f"{_URI}/{_BRANCH}/{contested}", stdin=_ON_BRANCH)
        removed = plan.prefix + plan.removed
        stage.run("rm", *(["-r"] if removed.endswith("/") else []), f"{_URI}/{_BRANCH}/{removed}")
        stage.run("status", f"{_URI}/{_BRANCH}")
        kinds = [change.type.value for change in repository.uncommitted(_BRANCH, amount=1_000_000).results]
        expected_kinds = ["added", "changed", *["removed"] * removals]
        stage.check(sorted(kinds) == sorted(expected_kinds), f"the uncommitted changes are {kinds}")

    with stage.step(
        "Commit, and compare with main", "main has not changed. A commit writes only the ranges that its changes touch."
    ):
        stage.run("commit", f"{_URI}/{_BRANCH}", "-m", "Try something else")
        stage.run("diff", f"{_URI}/main..{_BRANCH}", "--prefix", plan.prefix, "--folders")
        stage.check(not repository.uncommitted(_BRANCH).results, "something is still uncommitted")
        stage.check(
            len(repository.diff("main", _BRANCH, amount=1_000_000).results) == len(expected_kinds), "the diff differs"
        )
        stage.check(_read(repository, "main", contested) == original, "main changed with the branch")

    with stage.step("Meanwhile, someone changes the same file on main"):
        stage.run("put", "-", f"{_URI}/main/{contested}", stdin=_ON_MAIN)
        stage.run("commit", f"{_URI}/main", "-m", "A change on main")
    before_merge = repository.commit_of("main").id

    with stage.step(
        "Merge: a conflict", "Both sides changed the file, so nothing is merged and the conflict is reported."
    ):
        output = stage.run("merge", f"{_URI}/{_BRANCH}", "main", fails_with=4)
        stage.check(contested in output, "the conflict was not reported")
        stage.check(repository.commit_of("main").id == before_merge, "main moved despite the conflict")

    with stage.step("Merge, and let the branch win"):
        stage.run("merge", f"{_URI}/{_BRANCH}", "main", "--strategy", "source-wins", "-m", "Take the experiment")
        parents = repository.commit_of("main").parents
        stage.check(parents == (before_merge, repository.commit_of(_BRANCH).id), "the merge has the wrong parents")
        stage.check(_line(repository, "main", contested) == _ON_BRANCH, "the branch did not win")
        remaining = sum(1 for _ in repository.objects("main"))
        stage.check(remaining == len(objects) + 1 - removals, f"main has {remaining} objects")

    with stage.step("Time travel", "Every state is still there: after the merge, before it, and as imported."):
        now = stage.run("cat", f"{_URI}/main/{contested}")
        before = stage.run("cat", f"{_URI}/main~1/{contested}")
        stage.run("cat", f"{_URI}/main~2/{contested}", shown=3)
        stage.run("diff", f"{_URI}/main~2..main", "--prefix", contested)
        stage.check((now.strip(), before.strip()) == (_ON_BRANCH, _ON_MAIN), f"main was {before!r} and is {now!r}")
        stage.check(_read(repository, "main~2", contested) == original, "the imported version has different bytes")

    with stage.step("Tag it, and look at the graph"):
        stage.run("tag", "create", f"{_URI}/v1", "main")
        graph = stage.run("log", f"{_URI}/main", "--graph", "--oneline", shown=40)
        stage.check(repository.tag("v1").commit_id == repository.commit_of("main").id, "the tag names another commit")
        stage.check("tag: v1" in graph and _BRANCH in graph, "the graph does not show the tag and the branch")


def try_next(plan: Plan) -> list[str]:
    """Return command lines to try afterwards."""
    import shlex

    return [
        f"graveler log {_URI}/main --graph",
        f"graveler ls -l {shlex.quote(f'{_URI}/main/{plan.prefix}')}",
        f"graveler show {_URI}/{_BRANCH}",
        f"graveler reflog {_URI}/main",
        f"graveler branch create {_URI}/mine --source v1",
    ]


def _open(lake: Path) -> "OpenRepository":
    from graveler.lake.opening.folder import open_folder_lake

    return open_folder_lake(lake).repository(REPOSITORY)


def _read(repository: "OpenRepository", ref: str, path: str) -> bytes:
    """Return an object's bytes, or no bytes if they do not match the recorded checksum."""
    data = repository.read(ref, path)
    noted = repository.stat(ref, path).checksum
    return data if hashlib.md5(data, usedforsecurity=False).hexdigest() == noted else b""


def _line(repository: "OpenRepository", ref: str, path: str) -> str:
    return _read(repository, ref, path).decode(errors="replace").strip()


def _to_contest(source: Path, files: Sequence[str]) -> str:
    """Return a short text, of those with the shortest path, or else the first file."""
    for endings in _TEXTS:
        fitting = [f for f in files if f.endswith(endings) and 100 < (source / f).stat().st_size < 20_000]
        if fitting:
            return min(fitting, key=len)
    return files[0]


def _to_remove(files: Sequence[str], contested: str) -> str:
    """Return the smallest folder of two to twenty files without the contested one, or else a single file."""
    sizes: dict[str, int] = {}
    for file in files:
        folder, slash, _ = file.partition("/")
        if slash:
            sizes[folder + "/"] = sizes.get(folder + "/", 0) + 1
    fitting = [(n, folder) for folder, n in sizes.items() if 2 <= n <= 20 and not contested.startswith(folder)]
    return min(fitting)[1] if fitting else next(file for file in files if file != contested)


def _is_below(file: str, removed: str) -> bool:
    return file.startswith(removed) if removed.endswith("/") else file == removed
