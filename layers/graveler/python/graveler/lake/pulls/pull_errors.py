"""Refusals that concern pull requests."""

from graveler.errors import ConflictError, ForbiddenError, NotFoundError, sentence


@sentence("pull request {number!r} does not exist; list the existing ones")
class PullRequestNotFoundError(NotFoundError):
    """No pull request has this number."""

    code = "pull_request_not_found"
    number: str


@sentence("pull request {number} is {state}{reason}; nothing was changed. Open a new one for further changes")
class PullRequestEndedError(ConflictError):
    """The pull request is closed or merged. ``reason`` begins with ": ", or is empty."""

    code = "pull_request_ended"
    number: str
    state: str
    reason: str


@sentence(
    "{name!r} may not approve pull request {number}, because {role}; nothing was changed. Ask somebody else to approve it"
)
class OwnApprovalError(ForbiddenError):
    """The author of a pull request, or of a commit in it, may not approve it."""

    code = "own_approval"
    number: str
    name: str
    role: str
