"""Objects that cannot be files, which exports and downloads leave out."""

from collections.abc import Sequence

from graveler.cli.exits import ListedError
from graveler.cli.terminal import warn
from graveler.cli.values import count


def report_left_out(left_out: Sequence[tuple[str, str]]) -> None:
    """Report the objects that a verb left out, path and reason. Folder markers, which hold nothing, get a warning; for others,
    the verb fails, after it has written the rest."""
    from graveler.lake.exporting.export_names import IS_MARKER, UnwritableKeysError

    problems = [(path, reason) for path, reason in left_out if reason != IS_MARKER]
    markers = len(left_out) - len(problems)
    if markers:
        warn(f"left out {count(markers, 'empty folder marker')}, which no file can be")
    if problems:
        raise ListedError(UnwritableKeysError(problems), [f"{path}  {reason}" for path, reason in problems])
