"""Ref expressions: from what a user writes to a commit.

::

    expression := base [ at ] step*
    base       := name of a branch | name of a tag | commit ID | the first digits (4 or more) of one commit ID
    at         := "@" | "@{N}" | "@{TIME}" | "@{AGO}"
    step       := "~" | "~N" | "^" | "^N"

If a base may mean several things, the first in this order counts. ``@`` stands only after a branch and means its commit, without
its uncommitted changes. ``@{N}`` is where the branch was before its last N moves, ``@{TIME}`` where it was at that time,
``@{AGO}`` where it was that long ago (:mod:`graveler.history.relative_times`), according to its reference log
(:mod:`graveler.history.past`). ``~N`` is N steps along first parents, ``^N`` the N-th parent; without N, 1; with 0, the commit
itself.
"""

from functools import lru_cache
from typing import Final, Literal, NoReturn

from msgspec import Struct

from graveler.errors import AmbiguousRefError, InvalidError, ParentNotFoundError, RefNotFoundError
from graveler.history.commits import ID_DIGITS, MIN_PREFIX_DIGITS, CommitStore, is_commit_id, is_hex
from graveler.history.graph import first_parent_ancestor
from graveler.history.names import broken_tag_rule, is_branch
from graveler.history.past import Past, commit_at, parse_past
from graveler.history.refs import BranchState, Refs
from graveler.history.relative_times import AGO_EXAMPLES
from graveler.model import CommitID, Tag
from graveler.storage.tables.port import Key
from graveler.system.pauses import require_cached

_STEPS: Final = "~^"
_MAX_DIGITS: Final = 9
_DECIMAL: Final = frozenset("0123456789")


class Step(Struct, frozen=True):
    """``~number`` or ``^number``."""

    kind: Literal["~", "^"]
    number: int


class RefExpression(Struct, frozen=True):
    """A parsed expression. ``committed``: a ``@`` follows the base; ``past``: the braces behind it, if any."""

    base: str
    committed: bool = False
    steps: tuple[Step, ...] = ()
    past: Past | None = None

    def __str__(self) -> str:
        return self.head + "".join(f"{step.kind}{step.number}" for step in self.steps)

    @property
    def head(self) -> str:
        """The expression without its steps."""
        return self.base + "@" * self.committed + ("" if self.past is None else str(self.past))


class Resolved(Struct, frozen=True):
    """The commit that an expression means. ``branch`` is set if the expression is a branch's plain name: then the branch's
    uncommitted changes count too. ``tag`` is set if it is a tag's."""

    commit_id: CommitID
    branch: BranchState | None = None
    tag: Tag | None = None


def parse(text: str) -> RefExpression:
    """Parse an expression. No request. :class:`InvalidError` with the position (from 1) of the error."""
    return _parse_once(text) if len(text) <= _KEPT_LENGTH else _parse(text)


def _parse(text: str) -> RefExpression:
    past, brace = None, text.find("@{")
    if brace >= 0:
        end = text.find("}", brace) + 1
        if not end:
            _refuse(text, brace + 1, "the brace is not closed")
        past = parse_past(text[brace + 2 : end - 1])
        if past is None:
            explanation = (
                "'@{…}' takes a number, a time such as 2026-06-01 or 2026-06-01T12:00Z (UTC, unless another zone is given), or "
                f"how long ago: {AGO_EXAMPLES}"
            )
            _refuse(text, brace + 2, explanation)
        committed, base = True, text[:brace]
    else:
        end = min((index for index in map(text.find, _STEPS) if index >= 0), default=len(text))
        committed = text[:end].endswith("@")
        base = text[: end - committed]
    if not base:
        _refuse(text, 0, "a branch, a tag or a commit ID is missing here")
    broken = broken_tag_rule(base)  # branches and commit IDs keep these rules too
    if broken is not None:
        _refuse(text, 0, f"{base[:80]!r} is not the name of a branch, tag or commit: {broken}")
    if committed and not is_branch(base):
        _refuse(text, len(base), "'@' is allowed only after the name of a branch")
    steps = []
    position = end
    while position < len(text):
        kind = text[position]
        digits = position + 1
        after = digits
        while after < len(text) and text[after] in _DECIMAL:
            after += 1
        if after - digits > _MAX_DIGITS:
            _refuse(text, digits, f"the number has more than {_MAX_DIGITS} digits")
        number = int(text[digits:after]) if after > digits else 1
        if kind == "~":
            steps.append(Step("~", number))
        elif kind == "^":
            steps.append(Step("^", number))
        else:
            _refuse(text, position, f"only '~' and '^', each with or without a number, can follow here, not {kind!r}")
        position = after
    return RefExpression(base, committed, tuple(steps), past)


def resolve(expression: RefExpression | str, refs: Refs, commits: CommitStore) -> Resolved:
    """Return the commit that ``expression`` means.

    Requests: one for a branch, a tag or a whole commit ID (all candidates for the base are read at once); two for a prefix; for
    ``@{…}`` one for each thousand moves of the branch since, and one for its item if the log does not say; in addition, unless in
    memory, one for each further 32 steps along first parents begun, and one for each ``^N`` from 2 on. The resulting commit is
    not read.

    Raises :class:`RefNotFoundError` that says what is missing (:class:`ParentNotFoundError` if it is a parent),
    :class:`AmbiguousRefError` for a prefix of several commits, :class:`InvalidError` for a malformed expression, and the errors
    of :meth:`CommitStore.get` for damaged records.
    """
    text = expression if isinstance(expression, str) else str(expression)
    if isinstance(expression, str):
        expression = parse(expression)
    if expression.steps or expression.past is not None:
        require_cached()  # a walk through history has no bound
    base = _resolve_base(text, expression, refs, commits)
    if not expression.steps:
        return Resolved(base.commit_id) if expression.committed else base
    commit_id = base.commit_id
    done = expression.head
    straight = 0  # steps along first parents that were not walked yet
    for step in expression.steps:
        if step.kind == "~" or step.number <= 1:
            straight += step.number
            continue
        commit_id = _walk(text, commits, done, commit_id, straight)
        done, straight = _tilde(done, straight), 0
        parents = commits.get(commit_id).parents
        if len(parents) < step.number:
            count = f"{len(parents)} parent{'s' if len(parents) != 1 else ''}"
            raise ParentNotFoundError(text, f"{done} is commit {commit_id[:16]}, which has {count}")
        commit_id = parents[step.number - 1]
        done += f"^{step.number}"
    return Resolved(_walk(text, commits, done, commit_id, straight))


_KEPT_LENGTH: Final = 100
_parse_once = lru_cache(maxsize=256)(_parse)
"""A few refs are resolved very often. Only short ones are cached, since users choose the text."""


def keys_of(expression: str, refs: Refs, commits: CommitStore) -> list[Key]:
    """Return the keys that :func:`resolve` reads first, for callers who read them together with something else
    (:meth:`Refs.with_prefetched`). Empty where that is not worth it, also for a malformed expression. No request."""
    try:
        parsed = parse(expression)
    except InvalidError:
        return []
    return [] if parsed.committed else _base_keys(parsed.base, refs, commits)


def is_base(expression: str) -> bool:
    """Return whether the expression is just a name or an ID, so that the items under :func:`keys_of`, if any exist, tell what it
    means."""
    parsed = parse(expression)
    return not (parsed.committed or parsed.steps or parsed.past is not None)


def _base_keys(base: str, refs: Refs, commits: CommitStore) -> list[Key]:
    """Return the keys of all candidates for a base, the tag's first."""
    keys: list[Key] = [refs.tag_key(base)]
    if is_branch(base):
        keys.append(refs.branch_key(base))
    if is_commit_id(base):
        keys.append(commits.key(CommitID(base)))
    return keys


def _resolve_base(text: str, expression: RefExpression, refs: Refs, commits: CommitStore) -> Resolved:
    base = expression.base
    if expression.past is not None:
        return Resolved(commit_at(text, base, expression.past, refs))
    if expression.committed:
        branch = refs.branch(base)
        if branch is None:
            raise RefNotFoundError(
                text, f"no branch is called {base!r}, and '@' is allowed only after the name of a branch"
            )
        return Resolved(branch.commit_id, branch)
    keys = _base_keys(base, refs, commits)
    whole = CommitID(base) if is_commit_id(base) else None
    items = dict(zip(keys, refs.read_many(keys), strict=True))
    if is_branch(base):
        branch = refs.decode_branch(base, items[refs.branch_key(base)])
        if branch is not None:
            return Resolved(branch.commit_id, branch)
    tag = refs.decode_tag(base, items[keys[0]])
    if tag is not None:
        return Resolved(tag.commit_id, tag=tag)
    if whole is not None:
        item = items[commits.key(whole)]
        if item is not None:
            return Resolved(commits.decode(whole, item).commit.id)
    if is_hex(base) and len(base) < MIN_PREFIX_DIGITS:
        raise RefNotFoundError(
            text,
            f"no branch or tag has this name, and naming a commit takes at least {MIN_PREFIX_DIGITS} digits of its ID",
        )
    candidates = commits.find_prefix(base) if is_hex(base) and len(base) < ID_DIGITS else []
    if len(candidates) > 1:
        raise AmbiguousRefError(text, candidates)
    if not candidates:
        described = "has this name" if base == text else f"is called {base!r}"
        raise RefNotFoundError(text, f"no branch, tag or commit {described}")
    return Resolved(candidates[0])


def _walk(text: str, commits: CommitStore, done: str, start: CommitID, distance: int) -> CommitID:
    reached, length = first_parent_ancestor(commits, start, distance)
    if reached is None:
        raise RefNotFoundError(
            text, f"the history of {done} has only {length} commit{'s' if length != 1 else ''} along first parents"
        )
    return reached


def _tilde(done: str, distance: int) -> str:
    return f"{done}~{distance}" if distance else done


def _refuse(text: str, position: int, reason: str) -> NoReturn:
    shown = repr(text) if len(text) <= 80 else f"{text[:80]!r}…"
    raise InvalidError(f"{shown} is not a valid ref expression, at character {position + 1}: {reason}")
