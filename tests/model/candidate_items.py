"""The items of :mod:`tests.model.candidates`, and the transactions that change them: a condition each, and what they write."""

from typing import Any, Final, NamedTuple, TypeVar

from tests.support.tuples import changed

RULES: Final[dict[str, bool]] = {
    # The rules of a repository
    "stamp_branches": True,  # SetRules writes the version into each branch that matches, before it returns
    "repetition_stamps": True,  # … also if a call that died had put the rules already
    "stamp_never_lowered": True,  # … and never over the stamp of later rules
    "stamp_in_condition": True,  # a publication requires the stamp (and the number of moves) that it has read
    "reread_on_newer_stamp": True,  # a verb that reads a stamp newer than its rules reads again
    "create_checks_rules": True,  # whoever makes a branch or tag requires the version of the rules that it has read
    "create_takes_stamp": True,  # … and gives it to the branch
    "create_checks_statuses": True,  # … and requires the statuses by which it judged, as a publication does
    # Versions before rules
    "uid_moves": True,  # the first rule moves the repository's uid, which earlier versions compare
    "stamp_raises_moves": True,  # a stamp counts as a move, which earlier versions have in their condition
    "stamp_is_unreadable": True,  # earlier versions cannot read a branch with a stamp
    # Candidates
    "pointer_as_read": True,  # a candidate is prepared on condition that its request has the newest one that was read
    "supersede_previous": True,  # … whose row it ends
    "supersede_if_open": True,  # … on condition that it is open
    "end_if_open": True,  # so does whoever ends one
    "beat_if_open": True,  # … and whoever gives a sign of life
    "publish_if_open": True,  # … and who publishes it
    "end_in_publication": True,  # the transaction that publishes ends the row
    "row_is_proof": True,  # after a lost answer the row says what happened, not the commit
    "statuses_in_condition": True,  # a publication requires the statuses by which it was judged
    "pull_request_in_condition": True,  # … and its pull request as it was judged
    "merged_in_publication": True,  # … which becomes merged in the same transaction
    "compare_lives": True,  # a candidate belongs to the branch that it was made for, not to its name
    "staging_read_again": True,  # who publishes a candidate on a new read of the branch reads again what is staged
    # Sealed tokens
    "tokens_as_read": True,  # a candidate takes tokens on condition that their items are as they were read
    "tokens_are_sealed": True,  # … and only sealed ones: who finds that one is decided reads the branch again
    "renewal_keeps_hold": True,  # a lease is renewed on condition that no candidate holds the token
    "over_is_ended": True,  # whoever needs the tokens ends a candidate whose time is over
    "ended_is_free": True,  # … and takes what one holds that has ended
    # The collector
    "rows_are_roots": True,  # open candidates hold their commits
    "end_before_roots": True,  # the collector ends those that are over, rather than to pass over them
    "rows_before_logs": True,  # it reads candidates before the reference logs, in which published ones are
    "alive_check": True,  # a ref is pointed at a commit on condition that it has not expired
}

A: Final = "a"
OTHER: Final = "x"
"""A branch whose name no rule matches."""
TAG: Final = "tag a"
OPEN, PUBLISHED = "open", "published"
DONE, DEAD = "done", "dead"
ATTEMPTS: Final = 3
"""Candidates that one process prepares before it gives up."""


class Branch(NamedTuple):
    """A branch's item. ``life`` is what all its tokens begin with, ``mark`` that of the latest conditional write."""

    head: str
    open: str
    sealed: tuple[str, ...] = ()
    moves: int = 1
    stamp: int = 0
    mark: int = 0

    @property
    def life(self) -> str:
        return self.open.partition(".")[0]

    def next_token(self) -> str:
        life, _, number = self.open.partition(".")
        return f"{life}.{int(number) + 1}"


class Commit(NamedTuple):
    tree: frozenset[str]
    alive: bool = True


class Row(NamedTuple):
    """A candidate, under the ID of its commit. ``over``: its time has run out, or its beat has stayed the same for too long."""

    state: str
    request: str
    head: str
    life: str
    tokens: tuple[str, ...] = ()
    over: bool = False


class Token(NamedTuple):
    """A token's item: sealed, and by whom, and for which candidate; or what became of it."""

    state: str
    owner: str
    candidate: str = ""


class PullRequest(NamedTuple):
    version: int = 1
    state: str = OPEN
    approved: bool = True


class Late(NamedTuple):
    """A transaction that its sender does not wait for any more."""

    kind: str
    arguments: tuple[Any, ...]


class Process(NamedTuple):
    name: str
    step: str
    memory: tuple[Any, ...] = ()


Value = TypeVar("Value")
Pairs = tuple[tuple[str, Value], ...]


class World(NamedTuple):
    """``returned`` is the version of the newest rules whose SetRules has returned; ``statuses`` are a version and a state for
    each tree; ``staged`` are the tokens under which something was staged, ``reset`` those whose changes were given up; ``log``
    are the commits that branches have had; ``acknowledged`` those whose publication was; ``created``: a conditional writer has
    created the object that merges bring."""

    version: int
    returned: int
    branches: Pairs[Branch]
    commits: Pairs[Commit]
    rows: Pairs[Row]
    pointers: Pairs[str]
    tokens: Pairs[Token]
    statuses: tuple[tuple[frozenset[str], tuple[int, str]], ...]
    staged: frozenset[str]
    processes: tuple[Process, ...]
    pull_request: PullRequest = PullRequest()
    reset: frozenset[str] = frozenset()
    log: frozenset[str] = frozenset()
    acknowledged: frozenset[str] = frozenset()
    late: tuple[Late, ...] = ()
    lives: int = 1
    created: bool = False
    tag: str = ""

    def branch(self, name: str = A) -> Branch | None:
        return get(self.branches, name)

    def tree(self, commit: str) -> frozenset[str]:
        return dict(self.commits)[commit].tree

    def status(self, commit: str) -> tuple[int, str]:
        return dict(self.statuses).get(self.tree(commit), (0, ""))

    def is_alive(self, commit: str) -> bool:
        return dict(self.commits)[commit].alive

    def is_open(self, candidate: str) -> bool:
        row = get(self.rows, candidate)
        return row is not None and row.state == OPEN


def get(pairs: Pairs[Value], name: str) -> Value | None:
    return next((value for key, value in pairs if key == name), None)


def having(pairs: Pairs[Value], name: str, value: Value | None) -> Pairs[Value]:
    rest = [pair for pair in pairs if pair[0] != name]
    return tuple(sorted([*rest, (name, value)] if value is not None else rest))


def verdict(version: int, state: str, *, approved: bool = True) -> str:
    """The judgement by the rules of a version: ``passes``, ``lacks`` something that time may bring, or ``never``."""
    if version == 0:
        return "passes"
    if version > 1 or state == "failure":
        return "never"
    return "passes" if state == "success" and approved else "lacks"


# Transactions. Each returns the world after it, or None if a condition fails.


def put_rules(w: World, version: int, level: int) -> World | None:
    return changed(w, version=level) if w.version == version else None


def stamp(w: World, branch: Branch, version: int) -> World | None:
    if w.branch() != branch:
        return None
    moves = branch.moves + RULES["stamp_raises_moves"]
    return moved(w, changed(branch, stamp=version, moves=moves))


def moved(w: World, branch: Branch, name: str = A) -> World:
    return changed(w, branches=having(w.branches, name, branch), log=w.log | {branch.head})


def is_as_read(w: World, branch: Branch) -> bool:
    now = w.branch()
    if now is not None and not RULES["stamp_in_condition"]:
        now = changed(now, stamp=branch.stamp, moves=branch.moves)
    return now == branch


def seal(w: World, owner: str, branch: Branch) -> World | None:
    if w.branch() != branch:
        return None
    after = changed(branch, open=branch.next_token(), sealed=(*branch.sealed, branch.open))
    return changed(moved(w, after), tokens=having(w.tokens, branch.open, Token("sealed", owner)))


def renew(w: World, token: str, owner: str) -> World | None:
    item = get(w.tokens, token)
    if item is None or (item.state, item.owner) != ("sealed", owner):
        return None
    if item.candidate and RULES["renewal_keeps_hold"]:
        return None
    return changed(w, tokens=having(w.tokens, token, Token("sealed", owner)))


def land(w: World, commit: str, branch: Branch, tree: frozenset[str], tokens: Pairs[Token]) -> World | None:
    """Publish without rules: the commit and the branch in one transaction."""
    if not is_as_read(w, branch) or get(w.commits, commit) is not None:
        return None
    return take_tokens(changed(w, commits=having(w.commits, commit, Commit(tree))), commit, branch, tokens)


def take_tokens(w: World, commit: str, branch: Branch, tokens: Pairs[Token]) -> World:
    names = [name for name, _ in tokens]
    rest = tuple(token for token in branch.sealed if token not in names)
    for name in names:
        w = changed(w, tokens=having(w.tokens, name, Token(PUBLISHED, commit)))
    now = w.branch() or branch
    return moved(w, changed(now, head=commit, sealed=rest, moves=now.moves + 1))


def prepare(
    w: World,
    candidate: str,
    row: Row,
    tree: frozenset[str],
    pointer: str | None,
    previous: str,
    tokens: Pairs[Token],
    owner: str,
) -> World | None:
    if RULES["pointer_as_read"] and get(w.pointers, row.request) != pointer:
        return None
    if RULES["tokens_as_read"] and any(get(w.tokens, name) != item for name, item in tokens):
        return None
    if previous and RULES["supersede_previous"]:
        ended = end(w, previous, "superseded", required=RULES["supersede_if_open"])
        if ended is None:
            return None
        w = ended
    for name, _ in tokens:
        w = changed(w, tokens=having(w.tokens, name, Token("sealed", owner, candidate)))
    return changed(
        w,
        commits=having(w.commits, candidate, Commit(tree)),
        rows=having(w.rows, candidate, row),
        pointers=having(w.pointers, row.request, candidate),
    )


def end(w: World, candidate: str, state: str, *, required: bool | None = None) -> World | None:
    row = get(w.rows, candidate)
    required = RULES["end_if_open"] if required is None else required
    if row is None or (required and row.state != OPEN):
        return None
    return changed(w, rows=having(w.rows, candidate, changed(row, state=state)))


def beat(w: World, candidate: str) -> World | None:
    row = get(w.rows, candidate)
    if row is None or (RULES["beat_if_open"] and row.state != OPEN):
        return None
    return changed(w, rows=having(w.rows, candidate, changed(row, state=OPEN)))


def publish(
    w: World, candidate: str, branch: Branch, status: int, pull_request: PullRequest | None, tokens: Pairs[Token]
) -> World | None:
    if not is_as_read(w, branch) or (RULES["publish_if_open"] and not w.is_open(candidate)):
        return None
    if RULES["statuses_in_condition"] and w.status(candidate)[0] != status:
        return None
    if pull_request is not None and RULES["pull_request_in_condition"] and w.pull_request != pull_request:
        return None
    if RULES["alive_check"] and not w.is_alive(candidate):
        return None
    if RULES["end_in_publication"]:
        w = end(w, candidate, PUBLISHED, required=False) or w
    if pull_request is not None and RULES["merged_in_publication"]:
        w = changed(w, pull_request=merged(w.pull_request))
    return take_tokens(w, candidate, branch, tokens)


def merged(pull_request: PullRequest) -> PullRequest:
    return changed(pull_request, state="merged", version=pull_request.version + 1)


def point(w: World, name: str, commit: str, source: Branch | None, version: int, status: int) -> World | None:
    """Make the branch or the tag ``a`` at a commit; from another branch, which loses its name, if there is a ``source``."""
    if RULES["create_checks_rules"] and w.version != version:
        return None
    if RULES["create_checks_statuses"] and w.status(commit)[0] != status:
        return None
    if RULES["alive_check"] and not w.is_alive(commit):
        return None
    if name == TAG:
        return changed(w, tag=commit) if not w.tag else None
    if w.branch() is not None or (source is not None and w.branch(OTHER) != source):
        return None
    w = changed(w, lives=w.lives + 1, branches=having(w.branches, OTHER, None) if source is not None else w.branches)
    stamped = version if RULES["create_takes_stamp"] else 0
    return moved(w, Branch(commit, f"life{w.lives}.0", stamp=stamped))


def reset_hard(w: World, branch: Branch, commit: str, status: int) -> World | None:
    if not is_as_read(w, branch) or not w.is_alive(commit):
        return None
    if RULES["create_checks_statuses"] and w.status(commit)[0] != status:
        return None
    return moved(w, changed(branch, head=commit, moves=branch.moves + 1))


def publish_early(w: World, commit: str, branch: Branch) -> World | None:
    """As a version before rules does: it drops the stamp, and has no condition of it."""
    now = w.branch()
    if now is None or changed(now, stamp=0) != changed(branch, stamp=0):
        return None
    w = changed(w, commits=having(w.commits, commit, Commit(w.tree(branch.head) | {commit})))
    return moved(w, changed(now, head=commit, stamp=0, moves=now.moves + 1))


TRANSACTIONS: Final = {
    function.__name__: function
    for function in (put_rules, stamp, renew, land, prepare, end, beat, publish, point, reset_hard, publish_early)
}
