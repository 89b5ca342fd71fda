"""The error of work whose condition no longer holds."""

from graveler.errors import PreconditionError


class StoppedError(PreconditionError):
    """The condition ``only_while`` of a :class:`graveler.lake.context.Context` no longer holds: nothing was changed."""
