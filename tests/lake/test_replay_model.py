"""Revert and cherry-pick with strategies, against a model of dicts."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import MergeConflictError, NoChangesError
from graveler.lake.repository import OpenRepository
from graveler.model import MergeStrategies, MergeStrategy
from tests.lake.support import World, put, texts

Texts = Mapping[str, str]

states = st.dictionaries(st.sampled_from(["a", "a/b", "a/c", "ab", "b/x", "b/y/z"]), st.sampled_from("123"))
choices = st.sampled_from(list(MergeStrategy))
by_prefix = st.dictionaries(st.sampled_from(["", "a", "a/", "a/b", "b/", "b/y", "zz", "é"]), choices, max_size=4)
chosen = st.builds(lambda default, some: MergeStrategies(default, tuple(some.items())), choices, by_prefix)


def commit_state(repository: OpenRepository, state: Texts) -> str:
    """Make the branch hold this, and nothing else; return the commit."""
    now = texts(repository)
    repository.delete("main", [path for path in now if path not in state])
    put(repository, {path: text for path, text in state.items() if now.get(path) != text})
    return repository.commit("main", "state", allow_empty=True).id


def merged(base: Texts, source: Texts, here: Texts, strategies: MergeStrategies) -> tuple[dict[str, str], list[str]]:
    """What a three-way merge makes, and the paths in conflict."""
    result: dict[str, str] = {}
    conflicts: list[str] = []
    for path in sorted({*base, *source, *here}):
        before, there, text = base.get(path), source.get(path), here.get(path)
        if before == text:
            text = there
        elif there not in (before, text):
            fitting = [pair for pair in strategies.by_prefix if path.startswith(pair[0])]
            strategy = max(fitting, key=lambda pair: len(pair[0]), default=("", strategies.default))[1]
            if strategy is MergeStrategy.NONE:
                conflicts.append(path)
            text = there if strategy is MergeStrategy.SOURCE_WINS else text
        if text is not None:
            result[path] = text
    return result, conflicts


@given(parent=states, child=states, here=states, strategies=chosen, is_revert=st.booleans())
@settings(max_examples=50, deadline=None)
def test_a_replay_does_what_its_strategies_say(
    parent: Texts, child: Texts, here: Texts, strategies: MergeStrategies, is_revert: bool
) -> None:
    repository = World().main
    commit_state(repository, parent)
    ref = commit_state(repository, child)
    commit_state(repository, here)
    replay = repository.revert if is_revert else repository.cherry_pick
    base, source = (child, parent) if is_revert else (parent, child)
    expected, conflicts = merged(base, source, here, strategies)
    if conflicts:
        with pytest.raises(MergeConflictError) as refused:
            replay("main", ref, strategy=strategies, request_id="one")
        assert [conflict.path for conflict in refused.value.conflicts] == conflicts
    elif expected == here:
        with pytest.raises(NoChangesError):
            replay("main", ref, strategy=strategies, request_id="one")
    else:
        commit = replay("main", ref, strategy=strategies, request_id="one")
        assert replay("main", ref, strategy=strategies, request_id="one") == commit == repository.commit_of("main")
        assert texts(repository) == expected
        return
    assert texts(repository) == here
