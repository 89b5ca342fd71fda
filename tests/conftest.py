"""What campaigns tell at the end of a run: how much they tried."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what tests recorded as ``faults``: the requests of a verb, and the faults that were tried in them."""
    recorded = [
        value
        for report in terminalreporter.getreports("passed")
        for name, value in getattr(report, "user_properties", [])
        if name == "faults"
    ]
    if recorded:
        requests, faults = (sum(each) for each in zip(*recorded, strict=True))
        terminalreporter.write_line(f"faults: {len(recorded)} verbs, {requests} requests, {faults} faults, one by one")
