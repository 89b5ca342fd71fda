"""The right answers of verbs, by their definitions, on plain dicts."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

V = TypeVar("V")


def rolled_up(paths: Iterable[str], prefix: str = "", after: str = "", delimiter: str = "") -> list[tuple[str, bool]]:
    """A listing without end: (path, is it a common prefix), in the order of the bytes, all greater than ``after``."""
    first, mark = prefix.encode(), delimiter.encode()
    found: dict[bytes, bool] = {}
    for path in paths:
        key = path.encode()
        if key.startswith(first):
            at = key.find(mark, len(first)) if mark else -1
            found[key if at < 0 else key[: at + len(mark)]] = at >= 0
    return [(key.decode(), common) for key, common in sorted(found.items()) if key > after.encode()]


def differences(left: Mapping[str, V], right: Mapping[str, V]) -> dict[str, str]:
    """Path → added, removed or changed."""
    return {
        path: "added" if path not in left else "removed" if path not in right else "changed"
        for path in left.keys() | right.keys()
        if left.get(path) != right.get(path)
    }


def three_way(
    base: Mapping[str, V], source: Mapping[str, V], destination: Mapping[str, V], strategy: str = ""
) -> tuple[dict[str, V], list[str]]:
    """The merged state, and the paths in conflict, in order. Absent is a value too."""
    result: dict[str, V] = {}
    conflicts: list[str] = []
    for path in sorted(base.keys() | source.keys() | destination.keys(), key=str.encode):
        b, s, d = base.get(path), source.get(path), destination.get(path)
        if s in (d, b):
            chosen = d
        elif d == b:
            chosen = s
        else:
            chosen = s if strategy == "source-wins" else d
            if not strategy:
                conflicts.append(path)
        if chosen is not None:
            result[path] = chosen
    return result, conflicts


def ancestors(parents: Mapping[str, tuple[str, ...]], commit: str) -> set[str]:
    """All that a commit can reach, itself included."""
    seen: set[str] = set()
    waiting = [commit]
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            waiting += parents[at]
    return seen


def merge_base(parents: Mapping[str, tuple[str, ...]], left: str, right: str) -> str | None:
    """A common ancestor that is none of another one; of several the one with the highest generation, then the smallest ID."""
    common = ancestors(parents, left) & ancestors(parents, right)
    best = [c for c in common if not any(c != other and c in ancestors(parents, other) for other in common)]
    generations: dict[str, int] = {}
    for commit in sorted(ancestors(parents, left), key=lambda c: len(ancestors(parents, c))):
        generations[commit] = 1 + max((generations[p] for p in parents[commit]), default=0)
    return min(best, key=lambda c: (-generations[c], c), default=None)
