"""The exception tree, grouped by what a handler would do about it.

::

    GravelerError
    ├── NotFoundError         the named thing does not exist
    │   └── GoneError         it did exist; it expired, or its bytes were removed
    ├── ConflictError         the current state, changed by others, contradicts the request; look, then decide
    ├── InvalidError          the request can never succeed as it is; change it
    │   └── LaterVersionError … by this version: a later one made what it is about; upgrade
    ├── PreconditionError     the request is fine, but the state is not ready for it; prepare the state first
    ├── ForbiddenError        the request is understood and not allowed
    ├── BusyError             concurrent work is in the way; the same request may succeed later
    │   └── TooLateError      … begun anew: the work done so far can no longer be published
    ├── CorruptError          stored bytes are not what was written; nothing was changed
    └── UnavailableError      a resource (disk, network, permission) failed; nothing was changed
        └── AnswerLostError   … or something was changed, which is unknown: look, then try again

Every message says what was wrong, with which value, and what to do, and is for people only: programs use the class, its
``code`` and its fields. An interface (command line, HTTP) maps the group to an exit code or a status in one table, and shows the
message as it is.
"""

import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from graveler.model import Conflict, Lack, PartialResult, TableMerge


UNREADABLE: Final = (ValueError, RecursionError)
"""The exceptions that decoders raise for invalid bytes. msgspec's own errors are ValueErrors, as is the one for invalid UTF-8.
Endless nesting is a RecursionError."""


class GravelerError(Exception):
    """Base class of all errors that graveler raises. ``kept`` is the hidden branch that holds the work of a transaction which
    could not land.

    ``code`` names the class for programs in any language, also on the wire (:mod:`graveler.values.error_codes`); once
    published, it stays. A class without its own uses that of its ancestor. Annotations without a value are the fields that
    travel with it. The decorator :func:`sentence` makes the constructor of a class whose message is its fields in a sentence.
    """

    code = "error"
    kept: str = ""

    def __str__(self) -> str:
        text = super().__str__()
        if not self.kept:
            return text
        return (
            f"{text}. The transaction's work is on hidden branch {self.kept!r}: land it once the reason is gone "
            f"(graveler.spark.land or graveler merge), or delete the branch"
        )

    def __reduce__(self) -> "tuple[object, ...]":
        # Python's own would call the class with the sentence. A pool whose worker raised such an error would break, and hide it.
        return _unpickled, (type(self), self.args), self.__dict__

    def _render_traceback_(self) -> "list[str]":
        # IPython asks for the lines that it shows: it would show the last frame even with ``__tracebackhide__``. See
        # https://ipython.readthedocs.io/en/stable/config/integrating.html#custom-exception-tracebacks
        formatter = sys.modules["IPython"].get_ipython().InteractiveTB
        lines: list[str] = formatter.structured_traceback(type(self), self, shown_frames(self.__traceback__))
        return lines


def shown_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without its last frames that have a true local variable ``__tracebackhide__``."""
    if traceback is None:
        return None
    below = shown_frames(traceback.tb_next)
    if below is None and traceback.tb_frame.f_locals.get("__tracebackhide__"):
        return None
    return TracebackType(below, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def _unpickled(kind: type[GravelerError], arguments: tuple[object, ...]) -> GravelerError:
    error = kind.__new__(kind)
    error.args = arguments
    return error


_Kind = TypeVar("_Kind", bound=type[GravelerError])


def field_types(kind: type[GravelerError]) -> dict[str, Any]:
    """Return the fields that travel with an error, with their annotations: types of :mod:`graveler.model` by name."""
    classes = [base for base in reversed(kind.__mro__) if issubclass(base, GravelerError)]
    return {
        name: annotation
        for base in classes
        for name, annotation in base.__annotations__.items()
        if not hasattr(kind, name)
    }


@dataclass_transform(eq_default=False)
def sentence(template: str) -> Callable[[_Kind], _Kind]:
    """Give an error class a constructor that takes its fields, in their order, and puts them into a template as of
    :meth:`str.format`."""

    def decorate(kind: _Kind) -> _Kind:
        names = tuple(field_types(kind))

        def construct(self: GravelerError, *values: object, **named: object) -> None:
            fields = dict(zip(names, values, strict=False)) | named
            if len(values) + len(named) != len(names) or len(fields) != len(names):
                raise TypeError(f"{kind.__name__} takes {', '.join(names)}")
            self.__dict__.update(fields)
            self.args = (template.format_map(fields),)

        kind.__init__ = construct  # type: ignore[assignment, method-assign]
        return kind

    return decorate


class NotFoundError(GravelerError):
    """The named thing does not exist."""

    code = "not_found"


class GoneError(NotFoundError):
    """The named thing did exist, and is not kept any more."""

    code = "gone"


class ConflictError(GravelerError):
    """The current state, changed by others, contradicts the request."""

    code = "conflict"


class InvalidError(GravelerError):
    """The request can never succeed as it is."""

    code = "invalid"


@sentence(
    "{subject} was made by a later version of graveler: it has format {version}, and this version reads formats up to {latest}. "
    "Upgrade graveler"
)
class LaterVersionError(InvalidError):
    """A later version of graveler made something that the request concerns. It is not damaged, and nothing was changed.
    ``version`` is its format, ``latest`` the last one that this version reads."""

    code = "later_version"
    subject: str
    version: int
    latest: int


class PreconditionError(GravelerError):
    """The request is fine, but the state is not ready for it."""

    code = "precondition_failed"


class ForbiddenError(GravelerError):
    """The request is understood and not allowed."""

    code = "forbidden"


@sentence(
    "repository {repository!r} is read-only, so nothing was changed; make it writable first, or force this change"
)
class ReadOnlyRepositoryError(ForbiddenError):
    """The repository is read-only, and the change was not forced."""

    code = "repository_read_only"
    repository: str


@sentence(
    "branch {branch!r} is protected by the pattern {pattern!r}: only merges, reverts and cherry-picks can change it. "
    "Commit the change on another branch, and merge that"
)
class ProtectedBranchError(ForbiddenError):
    """The branch is protected: it accepts no direct staging or commits."""

    code = "branch_protected"
    branch: str
    pattern: str


class BusyError(GravelerError):
    """Concurrent work was in the way; the same request may succeed later."""

    code = "busy"


class TooLateError(BusyError):
    """The work took too long to be published: nothing was changed. The same request may succeed, begun anew."""

    code = "too_late"


class CorruptError(GravelerError):
    """Stored bytes are not what was written."""

    code = "corrupt"


class UnavailableError(GravelerError):
    """A resource failed: disk, network, permission."""

    code = "unavailable"


@sentence(
    "the settings of checks, where they are made, are wrong, so no check can be made and nothing was changed; the operator there "
    "has to correct GRAVELER_CHECKS: {reason}"
)
class CheckSettingsError(UnavailableError):
    """The settings of checks in the environment of this process, or of the server, cannot be used. No client can mend that."""

    code = "check_settings_wrong"
    reason: str


class DamagedObjectError(CorruptError):
    """The bytes of an object are not those that the lake recorded. ``expected`` and ``found`` are the recorded and the actual
    size and MD5, where they are known."""

    code = "object_damaged"
    path: str
    ref: str
    address: str
    expected: str
    found: str

    def __init__(self, path: str, ref: str, address: str, expected: str, actual: str) -> None:
        self.path, self.ref, self.address, self.expected, self.found = path, ref, address, expected, actual
        outside = "" if address.startswith(("file://", "local://")) else " --outside"
        super().__init__(
            f"the bytes of {path!r} are not the ones recorded in {ref!r}: {address} has {actual}, expected {expected}. They were "
            f"changed outside the lake: restore them from a copy, or upload or import the object again, and commit. "
            f"`graveler fsck --bytes{outside}` finds all such objects"
        )


@sentence(
    "branch {branch!r} is kept for candidate {candidate:.16} of {author!r} while its checks run, at most until {until}; "
    "nothing was changed, try again then"
)
class TurnKeptError(BusyError):
    """The branch may not move while a candidate is checked that lost a round before, until the time ``until`` (text) at most."""

    code = "turn_kept"
    branch: str
    candidate: str
    author: str
    until: str


class AnswerLostError(UnavailableError):
    """A request got no response: it may have happened or not."""

    code = "outcome_unknown"


def may_pass(kind: type[BaseException]) -> bool:
    """Return whether the same step of an operation may succeed later after an error of this class: only then it is retried."""
    return issubclass(kind, BusyError | UnavailableError) and not issubclass(kind, TooLateError)


@sentence("repository {name!r} does not exist; create it, or list the existing ones")
class RepositoryNotFoundError(NotFoundError):
    """No repository has this name."""

    code = "repository_not_found"
    name: str


class RefNotFoundError(NotFoundError):
    """No ref has this name. ``kind`` is ``branch`` or ``tag`` if the lookup was for only one of these."""

    code = "ref_not_found"
    ref: str
    kind: str

    def __init__(self, ref: str, reason: str = "", kind: str = "") -> None:
        self.ref, self.kind = ref, kind
        super().__init__(f"ref {ref!r} not found: {reason or f'no {kind or _ANY_REF} has this name'}")


_ANY_REF: Final = "branch, tag or commit"


class ParentNotFoundError(RefNotFoundError):
    """A commit has fewer parents than a ref expression counts."""

    code = "parent_not_found"


@sentence("object {path!r} does not exist in {ref!r}")
class ObjectNotFoundError(NotFoundError):
    """No object has this path in the ref that was read."""

    code = "object_not_found"
    path: str
    ref: str


@sentence(
    "{path!r} on branch {branch!r} has no upload {upload_id!r} in progress: it was completed, aborted, or begun more than seven "
    "days ago; start a new one"
)
class UploadNotFoundError(NotFoundError):
    """No upload in parts with this ID is in progress for this path on this branch."""

    code = "upload_not_found"
    path: str
    branch: str
    upload_id: str


@sentence("object {path!r} is an uncommitted change of {ref!r}; commit it first")
class NotCommittedError(ObjectNotFoundError):
    """The object is staged on the branch, and not in any commit yet."""

    code = "object_not_committed"


@sentence(
    "commit {commit:.16} has expired: the retention rules no longer keep its objects, or no branch or tag leads to it "
    "any more. Use a newer commit; recently removed files may still be in quarantine (graveler gc restore)"
)
class ExpiredCommitError(GoneError):
    """The commit has expired: its objects are not kept any more, or are about to go."""

    code = "commit_expired"
    commit: str


@sentence(
    "hidden branch {hidden!r} of a transaction on {branch!r} is gone: garbage collection deleted it because this process "
    "gave no sign of life for five minutes, or someone else deleted or renamed it. {branch!r} was not changed; run the "
    "transaction again"
)
class TransactionGoneError(GoneError):
    """The hidden branch of a transaction disappeared before the transaction ended."""

    code = "transaction_gone"
    hidden: str
    branch: str


@sentence(
    "the bytes of object {path!r} in {ref!r} are gone: there is no longer anything at {address}; someone removed or "
    "moved them. Bring them back, or remove the object"
)
class BytesGoneError(GoneError):
    """The lake knows the object, but its bytes are missing from their address: they were removed without the lake's knowledge."""

    code = "object_bytes_gone"
    path: str
    ref: str
    address: str


class AlreadyExistsError(ConflictError):
    """The name is taken."""

    code = "already_exists"
    kind: str
    name: str

    def __init__(self, kind: str, name: str, what_to_do: str = "choose another name") -> None:
        self.kind, self.name = kind, name
        super().__init__(f"{kind} {name!r} already exists; {what_to_do}")


class MergeConflictError(ConflictError):
    """Both sides changed the same objects in different ways; nothing was changed.

    ``conflicts`` holds all of them, in key order; they do not travel, only their ``count`` does. ``tables`` are Iceberg tables
    among them, with the reasons.
    """

    code = "merge_conflict"
    source: str
    destination: str
    count: int
    tables: "tuple[TableMerge, ...]"
    conflicts: "tuple[Conflict, ...]" = ()

    def __init__(
        self, source: str, destination: str, conflicts: Sequence["Conflict"], tables: Sequence["TableMerge"] = ()
    ) -> None:
        self.source, self.destination = source, destination
        self.conflicts, self.tables = tuple(conflicts), tuple(tables)
        reasons = [
            reason.sentence if reason.kind == "name" else f"table {table.name}: {reason.sentence}"
            for table in self.tables
            for reason in table.reasons
        ]
        self.count = len(self.conflicts)
        shown = ", ".join(repr(c.path) for c in self.conflicts[:3]) + (", …" if len(self.conflicts) > 3 else "")
        words = "".join(f"; {reason}" for reason in [*reasons[:3], *["…"] * (len(reasons) > 3)])
        super().__init__(
            f"merging {source!r} into {destination!r}: {len(self.conflicts)} "
            f"conflict{'s' if len(self.conflicts) != 1 else ''} ({shown}){words}; nothing was changed. "
            "Change one of the sides, or choose a strategy: source-wins or dest-wins"
        )


@sentence(
    "merging {source!r} into {destination!r}: someone changed objects below {prefix!r} in {destination!r}, but the "
    "merge assumed that this prefix was unchanged; nothing was changed. Start again from the branch as it is now"
)
class TouchedError(ConflictError):
    """The destination changed where the merge assumed it was unchanged; nothing was changed."""

    code = "prefix_changed"
    source: str
    destination: str
    prefix: str


@sentence(
    "branch {branch!r} is at commit {found:.16}, but this request is for commit {wanted:.16}; nothing was changed. Look "
    "at the branch, then repeat the request for its current head"
)
class MovedError(ConflictError):
    """The head of a branch is not the one for which a commit was made, or for which the branch is to be deleted."""

    code = "branch_moved"
    branch: str
    wanted: str
    found: str


@sentence(
    "{ref!r} is at commit {found:.16} now, but the merge expected commit {wanted:.16}; nothing was changed. Check the "
    "commit that is there now before you merge"
)
class UnexpectedHeadError(PreconditionError):
    """A merge expected another commit of its source, or of its destination; nothing was changed. ``ref`` names ``found`` now."""

    code = "unexpected_head"
    ref: str
    wanted: str
    found: str


class RuleError(PreconditionError):
    """The rules of a branch or tag refuse a change, which lacks ``lacks``. ``candidate`` is the commit that would be published,
    and can be read by this ID until it ends; empty if there is none."""

    code = "rule_not_fulfilled"
    ref: str
    candidate: str
    lacks: "tuple[Lack, ...]"

    def __init__(self, ref: str, lacks: "Sequence[Lack]", candidate: str = "") -> None:
        self.ref, self.candidate, self.lacks = ref, candidate, tuple(lacks)
        named = "; ".join(
            [f"rule {lack.rule!r}: {lack.words}" for lack in self.lacks[:3]] + ["…"] * (len(self.lacks) > 3)
        )
        read = f". The commit that would be published is {candidate}" if candidate else ""
        if self.waits:
            read += (
                "; once nothing is lacking, repeat the request, or after a transaction run `graveler candidate publish`"
            )
        super().__init__(f"{ref!r} was not changed, because its rules are not fulfilled: {named}{read}")

    @property
    def waits(self) -> bool:
        """True if that commit waits for what it lacks, as an open candidate."""
        return bool(self.candidate) and all(lack.passing for lack in self.lacks)


@sentence(
    "branch {branch!r} has changes that candidate {candidate:.16} of {author!r} holds until it is published or ends ({until}); "
    "nothing was changed. Publish or withdraw the candidate, or reset the branch"
)
class ChangesHeldError(PreconditionError):
    """Uncommitted changes belong to a commit that waits for its checks, until the time ``until`` (text) at most."""

    code = "changes_held"
    branch: str
    candidate: str
    author: str
    until: str


@sentence("candidate {candidate!r} is {state}, which is final{reason}; make the change again")
class CandidateEndedError(ConflictError):
    """The candidate has ended: it cannot be published or withdrawn any more. ``reason`` begins with ": ", or is empty."""

    code = "candidate_ended"
    candidate: str
    state: str
    reason: str


@sentence(
    "object {path!r} in {ref!r} has the ETag {actual!r}, and not {expected!r}: someone wrote it in between; nothing was changed. "
    "Look at the object as it is now, then decide"
)
class ObjectChangedError(PreconditionError):
    """The object has another ETag than a write or a delete requires; nothing was changed."""

    code = "object_changed"
    path: str
    ref: str
    expected: str
    actual: str


class NoChangesError(PreconditionError):
    """There is nothing to commit or to merge."""

    code = "no_changes"


class DirtyBranchError(PreconditionError):
    """The branch has uncommitted changes, and the operation would mix with them. ``path`` is one of them that the operation
    would change too, if that is the reason."""

    code = "branch_dirty"
    branch: str
    path: str

    def __init__(self, branch: str, operation: str, path: str = "") -> None:
        self.branch, self.path = branch, path
        where = f" to objects that {operation} would change ({path!r})" if path else f", so {operation} is refused"
        so = ", so it is refused" if path else ""
        super().__init__(f"branch {branch!r} has uncommitted changes{where}{so}; commit or reset them first")


class TooMuchWorkError(PreconditionError):
    """The work exceeds the limit of one call; nothing was changed. As an operation it can be done in parts.
    ``operation`` identifies the holder of the changes that a commit has sealed, so that the operation can continue under that ID.
    Without a ``limit``, the call ran out of time, and ``partial_result`` is what it had built."""

    code = "too_much_work"
    records: int
    limit: int | None
    operation: str
    partial_result: "PartialResult | None" = None

    def __init__(
        self,
        work: str,
        records: int = 0,
        limit: int | None = None,
        operation: str = "",
        partial_result: "PartialResult | None" = None,
    ) -> None:
        self.records, self.limit, self.operation, self.partial_result = records, limit, operation, partial_result
        problem = (
            "takes longer than one call is allowed to"
            if limit is None
            else f"has to read {records:,} records or more, but one call is allowed {limit:,}"
        )
        super().__init__(f"{work} {problem}; run it as an operation")


class AmbiguousRefError(InvalidError):
    """Several commits share the prefix."""

    code = "ref_ambiguous"
    ref: str
    candidates: tuple[str, ...]

    def __init__(self, ref: str, candidates: Sequence[str]) -> None:
        self.ref, self.candidates = ref, tuple(candidates)
        super().__init__(
            f"ref {ref!r} is ambiguous: it matches commits {', '.join(c[:16] for c in candidates)}; give more digits"
        )


class EmptySourceError(InvalidError):
    """Sources of an import list no object, which the caller did not allow; nothing was changed.

    ``sources`` are pairs: what was to be imported, in words for a message, and its destination.
    """

    code = "import_source_empty"
    sources: tuple[tuple[str, str], ...]

    def __init__(self, sources: Sequence[tuple[str, str]]) -> None:
        self.sources = tuple(sources)
        named = [f"{source} lists no objects for {destination!r}" for source, destination in self.sources[:_NAMED]]
        more = len(self.sources) - len(named)
        super().__init__(
            f"nothing to import: {'; '.join(named)}{f'; and {more:,} more' if more else ''}. Nothing was changed. An import "
            "removes objects that its source does not list, so this one would empty its destination. Check the source's address; "
            "if the destination should be emptied, allow it (allow_empty)"
        )


_NAMED = 20
"""The number of sources that a message names."""


class DamagedFileError(CorruptError):
    """A range or metarange file is missing, truncated or damaged.

    ``name`` is the file's name; ``first`` and ``last`` bound the keys that it held, where they are known.
    """

    code = "file_damaged"
    kind: str
    name: str
    why: str
    first: bytes | None
    last: bytes | None

    def __init__(
        self, kind: str, name: str, reason: str, lowest: bytes | None = None, highest: bytes | None = None
    ) -> None:
        self.kind, self.name, self.why, self.first, self.last = kind, name, reason, lowest, highest
        held = ""
        if lowest is not None and highest is not None:
            held = (
                f"; it held the objects from {lowest.decode('utf-8', 'backslashreplace')!r}"
                f" to {highest.decode('utf-8', 'backslashreplace')!r}"
            )
        super().__init__(
            f"{kind} {name} {reason}{held}. Restore this file from a copy of the storage namespace, or let "
            "`graveler fsck --repair` rebuild it"
        )
