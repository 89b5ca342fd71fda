"""``make quick``: formatting, lint, imports, types of what changed, and the tests that tell most.

The tests are those that fail when a line that keeps a promise is removed (:mod:`tests.mutations`), but for the slow ones, and a
few of each room. They run beside the rest, so that both take less than a minute on two idle cores; mypy's first run takes longer.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from tests.mutations import MUTATIONS, ROOT, is_sparks

SLOW: Final = frozenset(
    [
        "test_a_branch_on_which_everything_changes_every_five_seconds_takes_it_in_two_rounds",
        "test_a_cancelled_commit_stays_cancelled_when_somebody_else_commits_its_changes",
        "test_a_child_of_a_fork_that_python_does_not_know_of_loses_nothing_or_says_so",
        "test_a_clock_that_is_set_back_hides_no_change_of_a_file",
        "test_a_closed_lake_is_there_however_it_is_found",
        "test_a_head_that_moves_at_any_step_is_followed",
        "test_a_listing_that_says_that_there_is_more_and_not_where_is_not_complete",
        "test_a_path_has_one_spelling_in_the_filesystem",
        "test_a_request_repeated_after_a_crash_has_the_effect_of_one",
        "test_a_window_is_committed_when_it_is_over_and_waits_for_no_other",
        "test_after_a_fault_at_any_request_a_verb_has_happened_or_not",
        "test_an_outage_at_any_request_ends_in_a_commit_or_in_none_and_it_is_told_which",
        "test_at_the_deadline_an_operation_ends_at_its_next_step_and_nothing_is_tried_again",
        "test_children_forked_at_any_moment_lose_nothing",
        "test_every_order_and_cut_of_a_batch_commits_the_same_at_the_same_time",
        "test_fsck_that_reads_all_bytes_names_each_damaged_object",
        "test_however_many_commits_died_the_next_one_is_one_commit_of_everything",
        "test_no_late_event_undoes_a_reconciling",
        "test_no_order_of_one_keys_events_and_no_cut_tells",
        "test_no_way_of_reading_takes_damaged_bytes_for_an_object",
        "test_nobody_who_waits_is_overtaken_more_often_than_others_were_there",
        "test_of_two_bodies_under_one_key_one_takes_effect_and_the_other_is_refused",
        "test_parts_that_are_done_are_not_invoked_again",
        "test_reading_the_files_of_an_open_table_loses_nothing",
        "test_rows_are_those_of_the_engine_on_a_plain_folder",
        "test_two_clients_with_one_key_get_one_response_and_have_one_effect",
        "test_what_a_verb_says_of_a_failing_disk_is_so",
        "test_what_cannot_be_begun_keeps_no_other_waiting_and_is_not_called_dead",
        "test_what_each_job_of_a_batch_is_told_of_a_failing_disk_is_so",
        "test_what_is_not_a_range_yet_is_left_out",
        "test_what_was_seen_before_a_rule_was_made_is_not_undone",
        "test_whatever_file_stands_under_a_name_reads_are_right_or_refused",
        "test_who_is_told_cancelled_gets_no_commit_and_who_gets_one_is_told_so",
        "test_work_that_goes_on_between_two_requests_of_who_cancels_makes_no_lie_of_it",
    ]
)
"""Tests of the table of mutations that take a second of CPU time or more."""

OTHER_PROCESSES: Final = ("aws/", "clients/", "functions/", "security/", "server/")
"""Rooms whose tests start servers."""

OF_ROOMS: Final = (
    "api/test_branches.py",
    "cli/test_merges.py",
    "history/test_names.py",
    "history/test_refs.py",
    "requests",
    "sdk/test_refs.py",
    "staging/test_changes.py",
    "test_guides.py",
    "test_house.py",
    "test_references.py",
    "tree/test_block.py",
    "wire/test_request_shapes.py",
)
"""Files that say most about their room, and those that guard names."""

_BASE: Final = "HEAD~1"
"""The types of what changed since are checked: the last commit, and what is not committed."""


def chosen_tests() -> list[str]:
    """Return the tests that tell most, as arguments of pytest."""
    of_promises = {mutation.test.partition("[")[0] for mutation in MUTATIONS if not is_sparks(mutation.test)}
    quick = [
        test for test in of_promises if not test.startswith(OTHER_PROCESSES) and test.partition("::")[2] not in SLOW
    ]
    return [f"tests/{name}" for name in sorted([*OF_ROOMS, *quick])]


def changed_files() -> list[str]:
    """Return the Python files that changed, but those that need Spark's types."""
    names = _lines("git", "diff", "--name-only", "--diff-filter=d", _BASE)
    names += _lines("git", "ls-files", "--others", "--exclude-standard")
    folders = ("layers/", "functions/", "infra/", "tests/", "bench/")
    return [n for n in sorted(set(names)) if n.endswith(".py") and n.startswith(folders) and "spark" not in n]


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def checks() -> Iterator[Sequence[str]]:
    """Yield the commands of what is checked beside the tests."""
    tools = Path(sys.executable).parent
    yield str(tools / "ruff"), "format", "--quiet", "--check", "."
    yield str(tools / "ruff"), "check", "--quiet", "."
    yield (str(tools / "lint-imports"),)
    if files := changed_files():
        yield str(tools / "mypy"), "--follow-imports=silent", *files


def main() -> None:
    """Run the tests and, meanwhile, the checks; then show what failed."""
    with TemporaryFile("w+") as output:
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not ci and not search"]
        running = subprocess.Popen([*pytest, *chosen_tests()], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        failed = False
        for command in checks():
            done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
            if done.returncode != 0:
                failed = True
                sys.stdout.write(done.stdout + done.stderr)
        failed |= running.wait() != 0
        output.seek(0)
        sys.stdout.write(output.read())
    sys.exit(failed)


if __name__ == "__main__":
    main()
