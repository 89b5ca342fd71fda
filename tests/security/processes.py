"""What the system shows about a process and its children."""

from pathlib import Path


def shown(process: int) -> dict[int, bytes]:
    """The environments and arguments of a process and of all that it started, as ``/proc`` shows them."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
    family = {process}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    found = {}
    for each in family:
        try:
            found[each] = b"\0".join(Path(f"/proc/{each}/{name}").read_bytes() for name in ("environ", "cmdline"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
