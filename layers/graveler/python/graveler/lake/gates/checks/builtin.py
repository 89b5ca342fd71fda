"""The built-in checks that look at records, addresses and commits; :mod:`graveler.lake.gates.checks.object_contents` has those
that look at bytes."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from graveler.lake.gates.checks.definitions import (
    AddressesCheck,
    HiddenKeysCheck,
    LimitsCheck,
    LiveUploadsCheck,
    MetadataCheck,
    NoDeletesCheck,
)
from graveler.lake.gates.checks.inputs import CheckInput
from graveler.lake.gates.checks.verdicts import PASSED, Offences, Verdict
from graveler.lake.objects.issued_addresses import made_at
from graveler.model import StatusState
from graveler.tree.key_range import KeyRange
from graveler.tree.record import object_size
from graveler.tree.summary import measure


def check_limits(definition: LimitsCheck, source: CheckInput) -> Verdict:
    """Compare numbers of objects and bytes with their bounds. Cost: the ranges that differ below the prefix; for the totals at
    most two more."""
    amounts = dict.fromkeys(("changed", "changed_bytes", "removed", "objects", "bytes"), 0)
    if any(name.startswith(("most_changed", "most_removed")) for name in definition.bounds):
        for _, before, after in source.watched(source.changes(definition.prefix)):
            amounts["changed"] += 1
            if after is not None:
                amounts["changed_bytes"] += object_size(after)
            elif before is not None:
                amounts["removed"] += 1
    if any(name.endswith("_objects") or name in ("most_bytes", "least_bytes") for name in definition.bounds):
        for _, totals in measure(source.candidate_tree, definition.prefix.encode()):
            amounts["objects"] += totals.added
            amounts["bytes"] += totals.added_bytes
    lacks = []
    for name, bound in definition.bounds.items():
        side, _, subject = name.partition("_")
        amount = amounts[subject]
        if amount > bound if side == "most" else amount < bound:
            noun = subject.replace("_", " ") if "bytes" in subject or subject == "objects" else f"{subject} objects"
            lacks.append(f"{amount:,} {noun}, but {'at most' if side == 'most' else 'at least'} {bound:,} are allowed")
    area = f" below {definition.prefix!r}" if definition.prefix else ""
    return Verdict(StatusState.FAILURE, f"the candidate has{area} {'; '.join(lacks)}") if lacks else PASSED


def check_no_deletes(definition: NoDeletesCheck, source: CheckInput) -> Verdict:
    """Look for removed objects. Cost: the ranges that differ below the prefix."""
    offences = Offences()
    for key, _, after in source.watched(source.changes(definition.prefix)):
        if after is None:
            offences.add(key.decode())
    return offences.verdict("would be removed")


def check_metadata(definition: MetadataCheck, source: CheckInput) -> Verdict:
    """Compare the commit's metadata with patterns. No request."""
    lacks = []
    for key, pattern in definition.keys.items():
        value = source.candidate.metadata.get(key)
        if value is None:
            lacks.append(f"metadata {key!r} is missing")
        elif not fnmatchcase(value, pattern):
            lacks.append(f"metadata {key!r} is {value[:200]!r}, which does not match {pattern!r}")
    return Verdict(StatusState.FAILURE, f"of the commit, {'; '.join(lacks)}") if lacks else PASSED


def check_hidden_keys(definition: HiddenKeysCheck, source: CheckInput) -> Verdict:
    """Look for new objects that are also a folder of others. Cost: the ranges that differ below the prefix, and for each new
    object one lookup of each folder that it lies in, and one of what lies below it."""
    tree = source.candidate_tree
    offences = Offences()
    for key, before, after in source.watched(source.changes(definition.prefix)):
        if before is not None or after is None:
            continue
        for folder in _folders(key):
            if tree.get(folder) is not None:
                offences.add(key.decode(), f"{folder.decode()!r} is an object, too")
        below = KeyRange.of_prefix(key + b"/")
        if not key.endswith(b"/") and next(tree.records(below.start, below.end), None) is not None:
            offences.add(key.decode(), f"there are objects below {key.decode() + '/'!r}, too")
    return offences.verdict("would hide others, or be hidden, in a folder of files")


def _folders(key: bytes) -> Iterator[bytes]:
    """Yield the keys of objects in whose place a key needs a folder."""
    position = key.find(b"/")
    while 0 <= position < len(key) - 1:
        if position and key[position - 1] != 0x2F:
            yield key[:position]
        position = key.find(b"/", position + 1)


def check_addresses(definition: AddressesCheck, source: CheckInput) -> Verdict:
    """Look for new objects at addresses outside. Cost: the ranges that differ below the prefix."""
    allowed = (source.repository.namespace + "/", *definition.allowed)
    offences = Offences()
    for entry in source.watched(source.new_entries(definition.prefix)):
        if not entry.address.startswith(allowed):
            offences.add(entry.path, entry.address)
    return offences.verdict("would lie at an address that is not allowed")


def check_live_uploads(definition: LiveUploadsCheck, source: CheckInput) -> Verdict:
    """Look for new objects whose address was issued lately. Cost: the ranges that differ below the prefix."""
    namespace = source.repository.namespace + "/"
    now = source.repository.clock.now()
    offences, latest = Offences(), 0.0
    for entry in source.watched(source.new_entries(definition.prefix)):
        if not entry.address.startswith(namespace):
            continue
        issued = made_at(entry.address.removeprefix(namespace))
        # An issuer whose clock is ahead makes its addresses younger, never older.
        if issued is not None and now - issued < definition.seconds + source.repository.skew:
            offences.add(entry.path, f"issued {max(0, now - issued):.0f} seconds ago")
            latest = max(latest, issued)
    seconds = latest + definition.seconds + source.repository.skew - now
    return offences.verdict(
        f"may still be replaced by an upload URL (the last of these ends in {seconds:.0f} seconds; repeat it then)"
    )
