"""One exception of each class that has a code."""

from pathlib import Path

from graveler import errors
from graveler.access import refusals as access
from graveler.errors import GravelerError
from graveler.lake.importing.listing_files import ListingError
from graveler.lake.pulls import pull_errors
from graveler.model import Conflict, Lack
from graveler.operations.work import CancelledError


def every_error(name: str) -> list[GravelerError]:
    """One of each class that has a code, about ``name``."""
    plain = (
        GravelerError,
        errors.NotFoundError,
        errors.GoneError,
        errors.ConflictError,
        errors.InvalidError,
        errors.PreconditionError,
        errors.ForbiddenError,
        errors.BusyError,
        errors.TooLateError,
        errors.CorruptError,
        errors.UnavailableError,
        errors.AnswerLostError,
        errors.NoChangesError,
        access.NotPermittedError,
        CancelledError,
    )
    return [
        *(kind(f"about {name}") for kind in plain),
        errors.ReadOnlyRepositoryError(name),
        errors.ProtectedBranchError("main", name),
        errors.DamagedObjectError(name, "main", "s3://b/x", "5 bytes with MD5 1", "6 bytes"),
        errors.RepositoryNotFoundError(name),
        *(errors.RefNotFoundError(name, kind=kind) for kind in ("", "branch", "tag")),
        errors.ParentNotFoundError(name, "it has none"),
        errors.ObjectNotFoundError(name, "main"),
        errors.NotCommittedError(name, "main"),
        errors.ExpiredCommitError("c" * 64),
        errors.TransactionGoneError(name, "main"),
        errors.BytesGoneError(name, "main", "s3://b/x"),
        *(errors.AlreadyExistsError(kind, name) for kind in ("repository", "branch", "tag", "object", "ingest rule")),
        errors.MergeConflictError("dev", name, [Conflict("x", None, None, None)]),
        errors.TouchedError("dev", "main", name),
        errors.MovedError(name, "c" * 64, "d" * 64),
        errors.UploadNotFoundError("path", name, "0" * 24),
        errors.ObjectChangedError("path", name, "e" * 32, "f" * 32),
        errors.UnexpectedHeadError(name, "c" * 64, "d" * 64),
        errors.RuleError(
            name, [Lack("tested", "status", "test", "pending", "it is pending", "https://ci/1")], "c" * 64
        ),
        errors.ChangesHeldError(name, "c" * 64, "etl", "2026-11-28 10:00 UTC"),
        errors.TurnKeptError(name, "c" * 64, "etl", "2026-11-28 10:00 UTC"),
        errors.CandidateEndedError("c" * 64, "withdrawn", ": by etl"),
        errors.CheckSettingsError("unknown field"),
        errors.DirtyBranchError("main", "merging", name),
        errors.LaterVersionError(name, 3, 2),
        errors.TooMuchWorkError(name, 1000, 10, "operation"),
        errors.AmbiguousRefError(name, ["c" * 64, "d" * 64]),
        errors.EmptySourceError([(name, "in/"), ("s3://b/", name)]),
        errors.DamagedFileError("range", "f" * 64, "is truncated", name.encode(), b"\xff"),
        access.AuthenticationError(),
        access.IdentityRefusedError(f"about {name}", "arn:aws:iam::123456789012:user/ada"),
        access.TooManyFailuresError(3),
        access.SourceNotAllowedError(name),
        access.OthersNamespaceError(name),
        access.PrincipalRuleNotFoundError(name),
        access.KeyNotFoundError(name),
        pull_errors.PullRequestNotFoundError(name),
        pull_errors.PullRequestEndedError("7", "merged", f": {name}"),
        pull_errors.OwnApprovalError("7", name, "it is theirs"),
        ListingError(Path("listing.csv"), f"names {name}", 7, name, "value"),
    ]
