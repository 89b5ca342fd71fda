"""The promises of ``docs/concurrency.md``, the lines that keep them, and the tests that fail without those lines.

``python -m tests.mutations`` copies the package, takes one line away after the other, and runs the line's test on the copy: each
has to fail; and to pass on the copy as it is. It prints the table, and ends with status 1 if a line is missed by nobody.
``tests/test_promises.py`` sees to it that the table fits the code.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "layers/graveler/python/graveler"


@dataclass(frozen=True)
class Mutation:
    """With ``instead`` in the place of ``line`` (a text that ``file`` has), ``test`` fails."""

    promise: str
    rule: str
    file: str
    line: str
    instead: str
    test: str


FAULTS: Final = "lake/test_faults.py::test_after_a_fault_at_any_request_a_verb_has_happened_or_not"

TRUTH: Final = "operations/test_truth.py"

MUTATIONS: Final[Sequence[Mutation]] = [
    Mutation(
        "C1",
        "a change is acknowledged only if its token is still open",
        "lake/stage.py",
        "if state.open == token:",
        "if True:",
        "lake/test_late_writes.py::test_a_put_into_a_token_that_was_sealed_long_ago_is_found_on_the_branch",
    ),
    Mutation(
        "C1",
        "sealed tokens are published the oldest first: a later commit waits",
        "lake/commit.py",
        "if adopted is not None:",
        "if adopted is None: adopted = []\n            if True:",
        "lake/test_commits_at_once.py::test_the_commit_that_seals_later_publishes_later",
    ),
    Mutation(
        "C1",
        "a branch moves only from the state that was read",
        "history/refs.py",
        "[Put(self.branch_key(old.name), _branch_item(new), _unchanged(old))]",
        "[Put(self.branch_key(old.name), _branch_item(new))]",
        "lake/test_merges_at_once.py::test_a_merge_against_a_concurrent_commit_takes_both",
    ),
    Mutation(
        "C1",
        "what is staged and changes nothing is put aside before a merge",
        "lake/clean_heads.py",
        "if found is not Staging.NO_CHANGE:",
        "if True:",
        "lake/test_merges_at_once.py::test_staged_changes_that_change_nothing_do_not_hide_what_a_merge_brings",
    ),
    Mutation(
        "C1",
        "a creator's transaction checks the branch that it looked at",
        "lake/create.py",
        "self._refs.unchanged_check(state),",
        "",
        "lake/test_create.py::test_who_comes_between_look_and_transaction_wins[False-seal and create]",
    ),
    Mutation(
        "C1",
        "a transaction is ended only if nobody has renewed its lease since",
        "history/owners.py",
        'return Delete(self._key(lease.branch), Matches({"owner": lease.owner, "beat": lease.beat}))',
        "return Delete(self._key(lease.branch))",
        "retention/test_abandoned.py::test_a_transaction_that_renews_in_the_last_moment_keeps_its_branch",
    ),
    Mutation(
        "C1",
        "a transaction's lease is watched for its whole length",
        "retention/abandoned.py",
        "elif not watch.is_held(lease.branch, lease.beat, LEASE):",
        "else:",
        "retention/test_abandoned.py::test_a_transaction_that_renews_keeps_its_branch_whatever_its_clock_says[right]",
    ),
    Mutation(
        "C1",
        "a collector that was stopped watches transactions anew",
        "retention/abandoned.py",
        "if left > 0 and self._was_stopped(min(left, _PAUSE)):",
        "if left > 0 and self._was_stopped(min(left, _PAUSE)) and False:",
        "retention/test_abandoned.py::test_a_collector_that_was_stopped_watches_anew",
    ),
    Mutation(
        "C1",
        "a reset drops nothing that a commit has read: it checks the branch",
        "lake/restage.py",
        "self._tables.transact([*left, check])",
        "self._tables.transact(left)",
        "lake/test_reset.py::test_what_a_commit_has_read_already_is_not_dropped_behind_its_back",
    ),
    Mutation(
        "C1",
        "what a dead commit had taken is staged again before its token goes",
        "lake/reset.py",
        "self._restager.stage_again(state, kept)",
        "list(kept)",
        f"{FAULTS}[reset path after a commit that died]",
    ),
    Mutation(
        "C1",
        "a refusal is told only once the put is shown to have no effect",
        "lake/stage.py",
        "except (ForbiddenError, NotFoundError):\n                if not self._withdrawer().withdraw(branch, placed):",
        "except (ForbiddenError, NotFoundError):\n                if False:",
        "lake/test_refused_writes.py::test_a_write_that_a_rule_refuses_has_no_effect[link-protect]",
    ),
    Mutation(
        "C1",
        "only a refused write's own put is taken back",
        "staging/changes.py",
        "Matches({_MARK: placed.mark})",
        "Matches({})",
        "lake/test_refused_writes.py::test_whoever_put_over_a_refused_write_is_not_overwritten",
    ),
    Mutation(
        "C1",
        "a put is taken back only while its token is open",
        "lake/withdraw.py",
        "[self._staged.take_back_write(put), self._refs.accepting_check(branch, put.token)]",
        "[self._staged.take_back_write(put)]",
        "lake/test_refused_writes.py::test_a_put_is_not_taken_back_once_a_commit_may_have_read_it",
    ),
    Mutation(
        "C1",
        "a put that was repeated by the adapter is not refused as such",
        "staging/changes.py",
        "replaced is None or replaced.get(_MARK) != mark",
        "True",
        "lake/test_refused_writes.py::test_a_put_whose_answer_was_lost_is_not_refused_as_such",
    ),
    Mutation(
        "C1",
        "what a reset of a path staged again may hold a refused put",
        "lake/reset.py",
        "token, TokenState.RESET, event.operation_id, into=into)",
        "token, TokenState.RESET, event.operation_id)",
        "lake/test_refused_writes.py::test_a_put_that_a_reset_of_another_path_staged_again_is_an_open_question[a]",
    ),
    Mutation(
        "C1",
        "a put under a dropped token is refused only if there was no older token",
        "lake/withdraw.py",
        "return outcome.alone and put.known",
        "return put.known",
        "lake/test_refused_writes.py::test_a_put_that_hid_a_change_of_an_older_token_that_was_dropped_with_it_is_an_open_question[commit]",
    ),
    Mutation(
        "C1",
        "a commit has read a put if it has its object, whatever the record",
        "lake/withdraw.py",
        "return changes_anything(self._committed(outcome.commit_id, put.key), put.packed)",
        "return self._committed(outcome.commit_id, put.key) != put.packed",
        "lake/test_refused_writes.py::test_a_put_of_what_the_head_has_is_an_open_question_once_a_commit_has_read_it",
    ),
    Mutation(
        "C1",
        "what an item hides is left out only once the item is firm",
        "lake/restage.py",
        "if number not in failed or self._is_free_again(write, failed[number], check)",
        "if number not in failed",
        "lake/test_refused_writes.py::test_what_a_refused_put_hid_comes_back_though_it_was_staged_again_meanwhile",
    ),
    Mutation(
        "C1",
        "what was put over a refused write is made firm",
        "lake/withdraw.py",
        "and self._staged.firm(outcome.into, put.key, again)",
        "and True",
        "lake/test_refused_writes.py::test_two_who_are_refused_on_a_renamed_branch_leave_nothing_that_was_refused",
    ),
    Mutation(
        "C1",
        "no record comes back whose object a collector did not see",
        "lake/withdraw.py",
        "if replaced is not None and not kept:",
        "if False:",
        "retention/test_refused_puts.py::test_what_a_put_hid_from_a_collection_is_not_told_to_be_there",
    ),
    Mutation(
        "C1",
        "no record comes back while a collector is at work",
        "lake/verbs/base.py",
        "if needed and is_collecting(self._tables, self._known.repository.uid):",
        "if False:",
        "retention/test_refused_puts.py::test_a_put_is_not_taken_back_while_a_collector_is_at_work",
    ),
    Mutation(
        "C1",
        "what a put replaced that may have been written twice nobody knows",
        "storage/dynamodb_tables.py",
        "if Outcome.LOST in failures:",
        "if False:",
        "storage/test_aws_faults.py::test_what_a_put_replaced_is_not_told_where_it_may_have_been_written_twice",
    ),
    Mutation(
        "C1",
        "a batch looks before it puts",
        "lake/stage.py",
        "token = self._branches.state(branch, intent).open\n        for at",
        "token = self._open.get(branch) or self._branches.state(branch, intent).open\n        for at",
        "lake/test_refused_writes.py::test_a_write_that_a_rule_refuses_has_no_effect[link many-protect]",
    ),
    Mutation(
        "C1",
        "a rename stages what is uncommitted under a token that the old name never had",
        "lake/rename.py",
        "closed.commit_id, into, (), closed.hidden",
        "closed.commit_id, into, tokens, closed.hidden",
        "lake/test_refused_writes.py::test_a_put_under_the_old_name_stays_off_the_renamed_branch_though_its_process_dies",
    ),
    Mutation(
        "C1",
        "nothing is acknowledged on a branch that is being renamed",
        "lake/branches.py",
        "if intent is not None and state is not None and state.renaming is not None:",
        "if False:",
        "lake/test_refused_writes.py::test_what_is_staged_at_a_moment_of_a_rename_is_not_lost",
    ),
    Mutation(
        "C5",
        "a branch whose rename died is opened again",
        "lake/branches.py",
        'if self._leases.is_held(f"rename/{found.renaming.into}", found.renaming.beat, RENAME_LEASE):',
        "if True:",
        "lake/test_refused_writes.py::test_a_rename_that_died_is_taken_back_by_the_next_change[False-2-tables.transact]",
    ),
    Mutation(
        "C1",
        "an import whose source lists nothing removes nothing, unless it may",
        "lake/importing/importer.py",
        "if empty and not allow_empty:",
        "if False:",
        "lake/test_import_changes.py::test_a_source_that_lists_nothing_is_refused_unless_it_may",
    ),
    Mutation(
        "C1",
        "a listing that says that there is more and not where is not complete",
        "storage/s3_objects.py",
        'if found or following in ("", token):',
        'if found or following in ("", token):\n                return\n            if False:',
        "storage/test_aws_faults.py::test_a_listing_that_says_that_there_is_more_and_not_where_is_not_complete",
    ),
    Mutation(
        "C2",
        "a commit, its branch and its tokens change in one transaction",
        "lake/publish.py",
        "                self._tables.transact([*writes, *mine])\n",
        "                for write in [*writes, *mine]:\n                    self._tables.transact([write])\n",
        f"{FAULTS}[commit]",
    ),
    Mutation(
        "C2",
        "files are durable before the commit that names them",
        "lake/publish.py",
        'self._objects.put(f"{COMMITS_FOLDER}/{commit.id}", encode_commit(commit))',
        "",
        f"{FAULTS}[merge]",
    ),
    Mutation(
        "C2",
        "a dump is listed when its manifest is there, which comes last",
        "lake/dump/take.py",
        "            writer.add(entry)\n        chunks = ",
        "            writer.add(entry)\n        put_manifest(objects, Manifest(version=VERSION, id=dump_id, created=int(now), "
        "repository=repository.name, uid=repository.uid, namespace=repository.namespace, branches=0, tags=0, staged=0, "
        "commits=(), chunks=()))\n        chunks = ",
        f"{FAULTS}[dump]",
    ),
    Mutation(
        "C3",
        "a reader looks below the tokens too that commits have sealed",
        "lake/reading.py",
        "(state.open, *state.sealed[::-1])",
        "(state.open,)",
        "lake/test_dead_committers.py::test_what_a_dead_committer_left_is_adopted_by_the_next_commit",
    ),
    Mutation(
        "C3",
        "what was staged stays for readers that took the branch before",
        "staging/cleanup.py",
        "LONGEST_REQUEST: Final = 15 * 60",
        "LONGEST_REQUEST: Final = -1",
        "lake/test_readers_and_clean_up.py::test_a_read_at_any_moment_of_commits_and_clean_up_finds_what_was_acknowledged",
    ),
    Mutation(
        "C4",
        "the result of a request with an id is part of its transaction",
        "lake/publish.py",
        "mine = [self._requests.done_write(request_id, commit.id, now, None)] if request_id else []",
        "mine: list[Write] = []",
        "lake/test_repeated_requests.py::test_a_request_repeated_after_a_crash_has_the_effect_of_one",
    ),
    Mutation(
        "C2",
        "a merge beside what is staged changes no key that is staged",
        "lake/landing.py",
        "if staged is Staging.CHANGES:",
        "if False:",
        "lake/test_merges.py::test_an_uncommitted_change_where_the_merge_changes_something_refuses_it",
    ),
    Mutation(
        "C2",
        "what is staged and no change by itself hides no merge either",
        "lake/clean_heads.py",
        'if inside or differ(before, after, key, key + b"\\0"):',
        'if inside or (changes_anything(before.get(key), packed) and differ(before, after, key, key + b"\\0")):',
        "lake/test_merges.py::test_what_is_staged_and_changes_nothing_does_not_hide_the_merge",
    ),
    Mutation(
        "C4",
        "the version of a numbered write is part of the transaction that publishes it",
        "lake/landing.py",
        "return [self._applications.write(self._branch, self._application, commit.id, self._last)]",
        "return ()",
        "lake/test_applications.py::test_a_version_that_is_repeated_after_weeks_is_there_once",
    ),
    Mutation(
        "C4",
        "a numbered write that lost a race looks what the application has written since",
        "lake/landing.py",
        "                        numbered.read()",
        "                        pass",
        "lake/test_applications.py::test_a_version_written_by_two_at_once_is_there_once",
    ),
    Mutation(
        "C4",
        "a version counts while its commit is in the branch's history",
        "lake/applications.py",
        "if merge_base(self._commits, commit.id, head) == commit.id:",
        "if True:",
        "lake/test_applications.py::test_what_left_the_branch_is_written_when_it_is_repeated",
    ),
    Mutation(
        "C4",
        "what applications wrote to a branch is not replaced by a rename that comes too late",
        "lake/applications.py",
        "self._tables.transact([*puts[at : at + _TOGETHER], free])",
        "self._tables.transact(puts[at : at + _TOGETHER])",
        "lake/test_applications.py::test_a_rename_to_a_name_that_another_branch_takes_meanwhile_leaves_its_versions_alone",
    ),
    Mutation(
        "C4",
        "a renamed branch knows what applications have written to it",
        "lake/rename.py",
        "self._applications.copy(old, new)",
        "pass",
        "lake/test_applications.py::test_branches_count_apart_and_a_renamed_one_goes_on",
    ),
    Mutation(
        "C4",
        "who adopts a request's changes writes its result",
        "lake/publish.py",
        "for id_, seen in self._requests.undone(adopted - {request_id}).items():",
        "for id_, seen in dict[str, None]().items():",
        "lake/test_repeated_requests.py::test_a_request_whose_changes_another_commit_adopted_has_that_commit_as_its_result",
    ),
    Mutation(
        "C4",
        "an answer that was lost is looked for",
        "lake/publish.py",
        "return bool(self._commits.read([commit.id]))",
        "return False",
        "lake/test_dead_committers.py::test_a_lost_answer_of_publish_is_resolved_by_looking",
    ),
    Mutation(
        "C2",
        "where the branch has moved, what the parts came to is made anew",
        "lake/in_parts/joined.py",
        "anew = moved(zip(self._trees, trees, strict=True))",
        "anew = []",
        "lake/test_in_place.py::test_a_head_that_moves_at_any_step_is_followed",
    ),
    Mutation(
        "C2",
        "a branch that moves again while an operation publishes is followed from where it was",
        "lake/in_parts/joined.py",
        "        self._trees = trees\n        return",
        "        return",
        "lake/test_in_place.py::test_a_head_that_is_turned_back_while_it_is_published_is_followed",
    ),
    Mutation(
        "C6",
        "what others change meanwhile is another round only if it is much",
        "lake/in_parts/joined.py",
        "if load_in(trees, anew).records > self._limit:",
        "if True:",
        "lake/test_in_place.py::test_what_moved_costs_what_it_changed_and_no_part",
    ),
    Mutation(
        "C5",
        "an operation whose time is over ends, and is not tried again",
        "errors.py",
        " and not issubclass(kind, TooLateError)",
        "",
        "operations/test_machine.py::test_at_the_deadline_an_operation_ends_at_its_next_step_and_nothing_is_tried_again",
    ),
    Mutation(
        "C5",
        "no step is begun when an operation's time is over",
        "lake/in_parts/parted.py",
        "        self._until.check(_DOING)\n        plan = self._files.plan(round_number)",
        "        plan = self._files.plan(round_number)",
        "lake/test_in_parts.py::test_what_took_longer_than_half_the_grace_is_not_published",
    ),
    Mutation(
        "C6",
        "a long operation that begins another round keeps its turn",
        "lake/in_parts/three_ways.py",
        "keep=before is not None",
        "keep=False",
        "operations/test_busy_branch.py::test_a_branch_on_which_everything_changes_every_five_seconds_takes_it_in_two_rounds",
    ),
    Mutation(
        "C6",
        "who goes away leaves those before it in line",
        "lake/turns.py",
        "if self._ticket and self._has_come and self._line",
        "if self._ticket and self._line",
        "lake/test_turns.py::test_who_goes_away_leaves_those_before_it_in_line",
    ),
    Mutation(
        "C5",
        "a turn that is kept is believed as long as it shows beats, and not much longer",
        "lake/turns.py",
        "str(beat), self._seconds[ticket])",
        "str(beat), 3600.0)",
        "operations/test_busy_branch.py::test_who_dies_with_its_turn_holds_a_branch_up_for_a_short_time",
    ),
    Mutation(
        "C5",
        "a part whose process died is begun again",
        "operations/claims.py",
        "return wait_for(self._leases, self._clock, lease, LEASE, look, told)",
        "return wait_for(self._leases, self._clock, lease, 3600.0, look, told)",
        "operations/test_claims.py::test_a_part_whose_process_died_is_begun_again_soon",
    ),
    Mutation(
        "C6",
        "a part that somebody works on is not begun again",
        "operations/machine.py",
        "with self._claims.working_on(self._operations(repository), this_round, number, report.check):",
        "if True:",
        "operations/test_claims.py::test_a_part_that_is_alive_is_not_begun_again",
    ),
    Mutation(
        "C6",
        "parts of an operation that are done are not invoked again",
        "operations/machine.py",
        "numbers=planned.left",
        "numbers=tuple(range(planned.parts))",
        "operations/test_machine.py::test_parts_that_are_done_are_not_invoked_again",
    ),
    Mutation(
        "C4",
        "an operation publishes under its own id if its request has none",
        "lake/verbs/commits.py",
        "known_by = request_id or operation_id",
        "known_by = request_id",
        "lake/test_in_parts.py::test_every_step_may_run_twice_and_leaves_what_the_first_run_left",
    ),
    Mutation(
        "C5",
        "a lease runs out",
        "lake/leases.py",
        "seen[1] + seconds - now",
        "seconds",
        "lake/test_dead_committers.py::test_a_commit_waits_for_a_dead_owner_no_longer_than_the_lease",
    ),
    Mutation(
        "C5",
        "a lease is watched for its length before it is taken over",
        "lake/leases.py",
        "seen = (beat, now)",
        "seen = (beat, now - seconds)",
        "lake/test_dead_committers.py::test_a_living_owner_is_not_taken_over_whatever_its_clock_says",
    ),
    Mutation(
        "C5",
        "each renewal of a sealed token is a new beat",
        "staging/tokens.py",
        '"beat": token_hex(8)',
        '"beat": owner',
        "lake/test_dead_committers.py::test_a_living_owner_is_not_taken_over_whatever_its_clock_says",
    ),
    Mutation(
        "C5",
        "temporary files of a living process are not swept: it holds their lock",
        "temporary.py",
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n                remove(path, status)",
        "remove(path, status)",
        "test_temporary.py::test_what_a_killed_process_left_goes_at_the_next_start_and_a_living_ones_stays[folder]",
    ),
    Mutation(
        "C5",
        "who was swept between making and locking begins again",
        "temporary.py",
        "return os.path.samestat(os.fstat(descriptor), os.lstat(path))",
        "return True",
        "test_temporary.py::test_who_is_swept_before_it_could_lock_begins_again[folder]",
    ),
    Mutation(
        "C5",
        "who deletes a transaction's branch removes its lease with it",
        "lake/branches.py",
        "                writes.append(self._owners.gone_write(name))\n            try:",
        "                pass\n            try:",
        "lake/test_hidden_branch.py::test_a_transaction_leaves_neither_branch_nor_lease",
    ),
    Mutation(
        "C5",
        "a commit that fails gives its lease back",
        "lake/sealing.py",
        "self._renew(own, operation, 0.0, request)",
        "self._renew(own, operation, LEASE, request)",
        "lake/test_dead_committers.py::test_a_commit_that_fails_gives_its_lease_back",
    ),
    Mutation(
        "C3",
        "undo goes by the order of the log, and the log by a counter",
        "history/refs.py",
        "LogEntry(event, old, new), number)",
        "LogEntry(event, old, new))",
        "lake/test_moves.py::test_undo_takes_back_what_happened_last_whatever_the_clocks_say",
    ),
    Mutation(
        "C3",
        "a name that is taken again goes on counting",
        "lake/branches.py",
        'return self._reflog.last_number("branch", name) + 1',
        "return 1",
        "lake/test_moves.py::test_the_log_of_a_name_goes_on_where_a_branch_takes_it_again",
    ),
    Mutation(
        "ends",
        "an operation publishes on condition that it still runs",
        "operations/store.py",
        "Matches({_ENDED: None})",
        "Matches({})",
        f"{TRUTH}::test_who_is_told_cancelled_gets_no_commit_and_who_gets_one_is_told_so[merge-machine]",
    ),
    Mutation(
        "ends",
        "the commit of an operation's request is looked for before an end is said",
        "operations/store.py",
        "if commit is not None:\n                ended",
        "if False:\n                ended",
        f"{TRUTH}::test_an_outage_at_any_request_ends_in_a_commit_or_in_none_and_it_is_told_which[merge-machine]",
    ),
    Mutation(
        "ends",
        "an end without a commit is written on condition that there is none",
        "operations/store.py",
        "checks: list[Write] = [unchanged]",
        "checks: list[Write] = []",
        f"{TRUTH}::test_work_that_goes_on_between_two_requests_of_who_cancels_makes_no_lie_of_it[merge-machine]",
    ),
    Mutation(
        "ends",
        "an end without a commit stays when somebody else commits the changes",
        "operations/store.py",
        "certain=ended.kind in COMMITTING and commit is None",
        "certain=False",
        f"{TRUTH}::test_a_cancelled_commit_stays_cancelled_when_somebody_else_commits_its_changes[machine]",
    ),
    Mutation(
        "ends",
        "an import whose time cannot be noted any more ends as one that made its commit",
        "operations/parted.py",
        "raise  # tried again, which finds the commit\n",
        "raise\n            raise\n",
        f"{TRUTH}::test_an_import_into_a_repository_that_becomes_read_only_says_whether_it_is_committed[machine]",
    ),
    Mutation(
        "C5",
        "an attempt counts when somebody begins to work on it",
        "operations/operator.py",
        "elif operation.begun >= MAX_ATTEMPTS and not operation.is_waited_for:",
        "elif operation.attempt >= MAX_ATTEMPTS:",
        "operations/test_parted.py::test_what_has_waited_for_long_is_tried_several_times_all_the_same",
    ),
    Mutation(
        "C5",
        "an operation that cannot be begun keeps no other waiting",
        "operations/operator.py",
        "except Exception:  # noqa: BLE001 - of",
        "except ZeroDivisionError:  # of",
        "operations/test_parted.py::test_what_cannot_be_begun_keeps_no_other_waiting_and_is_not_called_dead",
    ),
    Mutation(
        "C5",
        "an operation is taken over when its worker gives no sign of life",
        "operations/store.py",
        "str(operation.version), operation.claim + silent)",
        "str(operation.updated), operation.claim + silent)",
        "operations/test_runner.py::test_whoever_asks_takes_over_from_a_worker_that_died",
    ),
    Mutation(
        "C5",
        "one sign of life of a collector is enough for another one to leave",
        "lake/leases.py",
        "if first is not None and beat != first:",
        "if False:",
        "retention/test_collector.py::test_one_collector_at_a_time",
    ),
    Mutation(
        "C5",
        "who works on a step gives signs of life",
        "operations/machine.py",
        "self._clock.monotonic() - seen[1] >= RENEWAL",
        "False",
        "operations/test_machine.py::test_who_works_on_steps_gives_signs_of_life_and_the_sweep_leaves_the_operation_to_it",
    ),
    Mutation(
        "C5",
        "what a creator that died had claimed can be claimed",
        "lake/repositories.py",
        "if dead is not None:",
        "if False:",
        f"{FAULTS}[create repository]",
    ),
    Mutation(
        "C5",
        "a restore makes the repository's item last",
        "lake/dump/restore.py",
        "    _publish(tables, refs, known, item, tokens)\n",
        "",
        f"{FAULTS}[restore]",
    ),
    Mutation(
        "C6",
        "on a head that moved, only what differs is applied anew",
        "lake/commit.py",
        "if self._head is None or self._result is None or tokens != self._tokens or split != self._cut:",
        "if True:",
        "lake/test_commits_at_once.py::test_a_commit_whose_head_moved_redoes_only_the_intervals_that_changed",
    ),
    Mutation(
        "C6",
        "a merge whose destination moved is built again on it",
        "lake/landing.py",
        "turn.wait()",
        "raise",
        "lake/test_merges_at_once.py::test_a_merge_against_a_concurrent_commit_takes_both",
    ),
    Mutation(
        "C1",
        "a COMMIT of SQLite that fails is an answer that was lost",
        "storage/sqlite_tables.py",
        'raise AnswerLostError(\n                f"the table {self._path} was written',
        'raise UnavailableError(\n                f"the table {self._path} was written',
        "lake/test_disk_faults.py::test_what_a_verb_says_of_a_failing_disk_is_so[sync-one]",
    ),
    Mutation(
        "C1",
        "what is recovered from SQLite's log is synced before it is read",
        "storage/sqlite_tables.py",
        "                self._sync_log()",
        "                pass",
        "storage/test_sqlite_tables.py::test_what_is_recovered_from_the_log_is_made_durable_before_it_is_read",
    ),
    Mutation(
        "C1",
        "a folder that is made is durable, with those above it",
        "storage/folders.py",
        "in enumerate(place.parents):",
        "in enumerate(()):",
        "lake/test_folder_lake.py::test_a_new_lake_and_the_folders_on_the_way_to_it_are_durable",
    ),
    Mutation(
        "C2",
        "a file whose name could not be synced is not built on",
        "storage/files.py",
        "        except NotSyncedError:  # it is there, and must not be built on\n            raise\n",
        "",
        "storage/test_folder_objects.py::test_a_file_of_a_tree_whose_name_could_not_be_synced_is_not_built_on",
    ),
    Mutation(
        "C1",
        "what is sealed too often is staged again before its tokens go",
        "lake/restage.py",
        "self.stage_again(state, self._staged.scan(state.sealed[::-1]))",
        "pass",
        "lake/test_commits_at_once.py::test_however_many_commits_died_the_next_one_is_one_commit_of_everything",
    ),
    Mutation(
        "C4",
        "a request whose changes are staged again has their commit as its result",
        "lake/restage.py",
        "for request, seen in self._requests.undone(requests).items():",
        "for request, seen in dict[str, None]().items():",
        "lake/test_commits_at_once.py::test_however_many_commits_died_the_next_one_is_one_commit_of_everything",
    ),
    Mutation(
        "turns",
        "a verb that loses takes a ticket, and those that come later wait for it",
        "lake/turns.py",
        "self._must_join = self._must_join or ticket",
        "pass",
        "lake/test_turns.py::test_nobody_who_waits_is_overtaken_more_often_than_others_were_there",
    ),
    Mutation(
        "turns",
        "a ticket without a beat is passed over",
        "lake/turns.py",
        "if self._turns.watch.is_held(self._lease(ticket), str(beat), self._seconds[ticket]):",
        "if True:",
        "lake/test_turns.py::test_those_who_died_in_line_hold_the_next_one_up_for_one_turn",
    ),
    Mutation(
        "F1",
        "a tree that was built elsewhere is cut as its branch is",
        "lake/recut.py",
        "return tree if tree.cut_by == split or is_canonical(tree, split, like) else recut(tree, split)",
        "return tree",
        "lake/test_cuts.py::test_what_lay_ready_before_a_rewriting_gets_the_id_of_the_branch_as_it_is_cut_now",
    ),
    Mutation(
        "F1",
        "whether a range should have ended earlier is read from its keys",
        "tree/canonical.py",
        "return first_cut(split, keys) < len(keys)",
        "return not keys",
        "lake/test_cuts.py::test_ranges_that_end_where_others_may_end_are_looked_into",
    ),
    Mutation(
        "F5",
        "a file is the one that its label names, or is not believed",
        "tree/files.py",
        "        expect_label(table, kind, name)\n",
        "",
        "tree/test_exchanged.py::test_whatever_file_stands_under_a_name_reads_are_right_or_refused",
    ),
    Mutation(
        "F5",
        "a file without a label has the ends, count and size of its description",
        "tree/tree.py",
        "        if wrong:\n",
        "        if False:\n",
        "tree/test_exchanged.py::test_of_files_without_labels_ends_count_and_size_are_compared",
    ),
    Mutation(
        "F5",
        "a metarange digests to the second part of its name",
        "tree/tree.py",
        'if self._name.partition("-")[2] != tree._suffix():',
        "if False:",
        "tree/test_files.py::test_a_metarange_that_holds_something_else_than_its_name_says_is_refused",
    ),
    Mutation(
        "F5",
        "a copy that is another file is fetched again",
        "tree/files.py",
        "table = self._read(kind, name, expected, fresh=True)",
        "raise",
        "tree/test_exchanged.py::test_an_exchanged_copy_is_fetched_again",
    ),
    Mutation(
        "F5",
        "a block of a closed file has the checksum that it had",
        "tree/sstable.py",
        "if data[size + 1 : size + END_SIZE] != self._checksums[place : place + CHECKSUM_SIZE]:",
        "if False:",
        "tree/test_exchanged.py::test_a_block_of_another_file_is_not_taken_for_one_of_a_closed_file",
    ),
    Mutation(
        "F5",
        "a page goes on, or fails",
        "tree/listing.py",
        "if keys[0] < start or keys[-1] < keys[0]:",
        "if False:",
        "tree/test_exchanged.py::test_a_page_that_does_not_go_on_is_an_error_and_not_endless",
    ),
    Mutation(
        "F5",
        "the collector believes no other file than the one it asked for",
        "retention/marking.py",
        "        if table.label is None:\n            expect_name(table, name)\n",
        "",
        "retention/test_collector.py::test_an_exchanged_file_stops_the_collector",
    ),
    Mutation(
        "C1",
        "a row of SQLite that is not what was written under its key is not believed",
        "storage/rows.py",
        "    if row[1:_HEAD] != xxh3_64_digest(key.sort + body, _seed(key.partition) ^ len(key.sort)):",
        "    if False:",
        "storage/test_sqlite_tables.py::test_a_row_under_another_key_is_corrupt",
    ),
    Mutation(
        "bytes",
        "a whole object has the MD5 that was noted",
        "lake/checked.py",
        "if comparison.hashes and (found := comparison.found(vouch)) is not None:",
        "if False and (found := comparison.found(vouch)) is not None:",
        "lake/test_damaged_bytes.py::test_no_way_of_reading_takes_damaged_bytes_for_an_object[by_read]",
    ),
    Mutation(
        "bytes",
        "a part of an object is as long as was noted",
        "lake/checked.py",
        "if comparison.size < expected and not comparison.hashes:",
        "if False:",
        "lake/test_damaged_bytes.py::test_a_part_that_is_too_short_is_told",
    ),
    Mutation(
        "bytes",
        "no byte behind the noted end is handed on",
        "lake/checked.py",
        "        if comparison.size > expected:\n",
        "        if False:\n",
        "lake/test_damaged_bytes.py::test_no_byte_behind_the_noted_end_is_handed_on",
    ),
    Mutation(
        "bytes",
        "an ETag that looks like an MD5 is no digest",
        "lake/checked.py",
        "return stored.encrypted or stored.etag == checksum",
        "return False",
        "lake/test_damaged_bytes.py::test_an_etag_that_looks_like_an_md5_is_no_damage",
    ),
    Mutation(
        "bytes",
        "a file that was read to its end is compared",
        "sdk/reader.py",
        "if found is not None:",
        "if False:",
        "lake/test_damaged_bytes.py::test_no_way_of_reading_takes_damaged_bytes_for_an_object[by_open]",
    ),
    Mutation(
        "bytes",
        "a server refuses a file of another size",
        "server/data_plane.py",
        "if noted is not None and noted.size != stored.size:",
        "if False:",
        "server/test_damaged_bytes.py::test_no_client_takes_what_the_server_can_tell_for_whole",
    ),
    Mutation(
        "bytes",
        "a server keeps the last piece back until it has compared",
        "server/data_plane.py",
        "            if not self._left:\n",
        "            if False:\n",
        "server/test_damaged_bytes.py::test_no_client_takes_what_the_server_can_tell_for_whole",
    ),
    Mutation(
        "bytes",
        "fsck compares the bytes that it reads",
        "lake/fsck/objects.py",
        "found = comparison.found(partial(vouches, objects, key, entry.checksum))",
        "found = None",
        "lake/test_damaged_bytes.py::test_fsck_that_reads_all_bytes_names_each_damaged_object[flip-False]",
    ),
    Mutation(
        "spark",
        "a frame of files is known by repository, commit, path and files: no others share its plan",
        "spark/inside.py",
        'return f"{_ROOT}/{shown}/{digest}"',
        'return f"{_ROOT}/{len(shown + digest) * 0}"',
        "spark/test_sharing.py::test_refs_and_tables_of_one_schema_are_not_taken_for_each_other",
    ),
    Mutation(
        "spark",
        "tasks that write know the settings of the frame's session",
        "spark/inside.py",
        "context.setLocalProperty(name, value)",
        "context.getLocalProperty(name)",
        "spark/test_transaction.py::test_tasks_know_the_settings_of_the_frames_session",
    ),
    Mutation(
        "C4",
        "the number of a batch is published with its merge",
        "spark/landing.py",
        "application=terms.application,",
        "application=None,",
        "spark/test_streams.py::test_a_batch_that_failed_behind_its_commit_is_not_written_again",
    ),
    Mutation(
        "C4",
        "a second part of a batch is not taken for the first one, repeated",
        "spark/batches.py",
        "if context.getLocalProperty(written) == str(number):",
        "if False:",
        "spark/test_streams.py::test_a_batch_that_is_written_in_two_parts_is_not_taken_for_its_repetition",
    ),
    Mutation(
        "C5",
        "a landing notes which commit it became before it gives the tag",
        "spark/landing.py",
        "_note_landed(found, hidden, whole, named, merged, by)",
        "pass",
        "spark/test_landing.py::test_a_landing_that_died_anywhere_is_finished_by_the_next_one[v1-behind-create_tag]",
    ),
    Mutation(
        "spark",
        "threads of one transaction link one after the other",
        "spark/transactions.py",
        "with self._linking:",
        "if True:",
        "spark/test_transaction.py::test_of_two_threads_that_replace_the_same_in_one_transaction_the_later_one_counts",
    ),
    Mutation(
        "spark",
        "a stream follows first parents: what a merge brings comes once",
        "spark/feed_line.py",
        "self._repository.log(at, first_parent=True, ",
        "self._repository.log(at, ",
        "spark/test_change_feed.py::test_the_line_is_that_of_first_parents",
    ),
    Mutation(
        "F1",
        "trees of partitions are joined at their seams",
        "spark/joining.py",
        "return join(store, split, (subtree.tree(store) for subtree in subtrees))",
        "return Tree(store, [one for each in subtrees for one in each.lasts], [one for each in subtrees for one in each.packed])",
        "spark/test_import.py::test_any_partitions_and_failures_of_tasks_give_the_tree_of_a_single_process[2-300-7-2]",
    ),
    Mutation(
        "F1",
        "no tree of a partition reaches over what an earlier run has built",
        "spark/subtrees.py",
        "if writer is None or here != gap:",
        "if writer is None:",
        "spark/test_import_subtrees.py::test_any_partitions_repetitions_and_interruptions_give_the_same_tree",
    ),
    Mutation(
        "spark",
        "what looks too crowded is cut again",
        "spark/cutting.py",
        "large = [(piece, seen) for piece, seen in open_ones if seen.keys > goal]",
        "large = open_ones[:0]",
        "spark/test_cutting.py::test_a_bucket_is_cut_evenly_and_soon",
    ),
    Mutation(
        "ingest",
        "an event that is not newer than the last one is stale",
        "ingest/judging.py",
        "if seen is not None and event.sequencer <= seen.sequencer:",
        "if False:",
        "ingest/test_order.py::test_an_older_event_never_undoes_a_newer_one",
    ),
    Mutation(
        "ingest",
        "of two at one key the one that read first does not overwrite the other's event",
        "ingest/ledger.py",
        'condition = Absent() if before is None else Matches({"sequencer": before.sequencer})',
        "condition = None",
        "ingest/test_order.py::test_of_two_at_one_key_the_older_event_gives_way",
    ),
    Mutation(
        "ingest",
        "after a reconciling the source is asked about older events",
        "ingest/judging.py",
        "self._old = bool(reconciled) and (event.time <= reconciled or event.bucket == FILES)",
        "self._old = False",
        "ingest/test_late_events.py::test_no_late_event_undoes_a_reconciling[apply-plain]",
    ),
    Mutation(
        "ingest",
        "who has read a rule's state before a reconciling does not stage",
        "ingest/pending.py",
        'condition: Condition = Matches({"version": before.version}) if before.version else Absent()',
        "condition = None",
        "ingest/test_late_events.py::test_who_read_before_the_reconciling_began_does_not_stage_behind_its_back[3-delete]",
    ),
    Mutation(
        "ingest",
        "where deletes are kept, none is remembered",
        "ingest/judging.py",
        "if not created and rule.deletes is Deletes.KEEP:",
        "if False:",
        "ingest/test_late_events.py::test_no_order_of_one_keys_events_and_no_cut_tells[keep-plain]",
    ),
    Mutation(
        "ingest",
        "what is kept gives way to no older version",
        "ingest/judging.py",
        "and int(found.modified) < int(event.time)",
        "and False",
        "ingest/test_late_events.py::test_any_order_and_cut_of_any_history_ends_the_same[reconciled-keep-versioned]",
    ),
    Mutation(
        "ingest",
        "a marker that reconciling has counted counts no more",
        "ingest/judging.py",
        "marks = self._marks and not (self._old and self._was_counted(found))",
        "marks = self._marks",
        "ingest/test_late_events.py::test_a_lost_marker_is_made_good_and_counted_once",
    ),
    Mutation(
        "ingest",
        "a marker waits while an object of its batch is to come again",
        "ingest/ingester.py",
        "if rule.id in again and rule.is_marker(tasks[0].event.key):",
        "if False:",
        "ingest/test_late_events.py::test_no_marker_commits_half_of_a_batch[transact-0]",
    ),
    Mutation(
        "ingest",
        "before a marker counts, its folder is looked into again",
        "ingest/reconcile.py",
        'self._repair_all(f"{below}/" if below else "")',
        "pass",
        "ingest/test_late_events.py::test_what_lands_behind_a_listing_is_linked_before_its_marker_counts",
    ),
    Mutation(
        "ingest",
        "a watch tries again what failed",
        "ingest/watching.py",
        "events = [*self._events.due(), *self._folder.look()]",
        "events = self._folder.look()",
        "ingest/test_watching.py::test_what_landed_while_the_branch_was_protected_is_taken_when_it_no_longer_is",
    ),
    Mutation(
        "ingest",
        "an object counts to a window in the future only if somebody waits for it",
        "ingest/windows.py",
        "return self.at(now) if self.is_ahead(said, now) else said",
        "return said",
        "ingest/test_windows.py::test_what_is_dated_too_far_ahead_is_named_and_counts_to_the_present_window",
    ),
    Mutation(
        "ingest",
        "the oldest window that waits says when a commit is due",
        "ingest/pending.py",
        "return min(waiting or (found.since for _, found in counted))",
        "return max(waiting or [found.since for _, found in counted])",
        "ingest/test_windows.py::test_a_window_is_committed_when_it_is_over_and_waits_for_no_other",
    ),
    Mutation(
        "ingest",
        "what is late joins the commit of a window that waits",
        "ingest/pending.py",
        "if found.waits(window, begin)]",
        "]",
        "ingest/test_windows.py::test_every_order_and_cut_of_a_batch_commits_the_same_at_the_same_time[(0, 1, 2, 3, 4, 5)]",
    ),
    Mutation(
        "ingest",
        "a key may state the first window of 1970",
        "ingest/windows.py",
        "return self.at(time if stated is None else stated)",
        "return self.at(stated or time)",
        "ingest/test_windows.py::test_a_key_that_states_the_first_window_of_1970_is_of_that_window",
    ),
    Mutation(
        "ingest",
        "a state in which no window is counted counts to that in which it was staged",
        "ingest/pending.py",
        "begin = min(begin, self.window)",
        "begin = self.window",
        "ingest/test_windows.py::test_a_state_that_waited_for_the_future_goes_on",
    ),
    Mutation(
        "ingest",
        "an item counts so many windows, and no more",
        "ingest/pending.py",
        "if len(windows) <= MAX_WINDOWS:",
        "if True:",
        "ingest/test_windows.py::test_an_item_stays_small_and_what_comes_puts_nothing_off",
    ),
    Mutation(
        "ingest",
        "a backfill is few commits",
        "ingest/ingester.py",
        "apart = [over[begin] for begin in begins[: WINDOWS_APART - 1]]",
        "apart = [over[begin] for begin in begins[: WINDOWS_APART * 9]]",
        "ingest/test_windows.py::test_a_backfill_is_few_commits_and_loses_nothing",
    ),
    Mutation(
        "ingest",
        "no commit is begun when the time is over",
        "ingest/ingester.py",
        "if pending.wants_commit(rule.commit, self._clock.now()) and go_on():",
        "if pending.wants_commit(rule.commit, self._clock.now()):",
        "ingest/test_windows.py::test_when_the_time_is_over_all_is_staged_and_the_clock_makes_the_commits[0]",
    ),
    Mutation(
        "ingest",
        "no commit is known by the request of an older one",
        "ingest/pending.py",
        '+ (f"-{self.request}" if self.request else "")',
        "",
        "ingest/test_damaged.py::test_the_advice_for_a_damaged_state_can_be_followed[False-1]",
    ),
    Mutation(
        "ingest",
        "an event that a damaged rule may take comes again",
        "ingest/ingester.py",
        "if damaged.may_take(event.address):",
        "if False:",
        "ingest/test_damaged.py::test_the_others_go_on_it_is_named_and_nothing_is_lost",
    ),
    Mutation(
        "ingest",
        "a damaged item is read past",
        "storage/walking.py",
        'start = damaged + b"\\0"\n            continue',
        "return",
        "ingest/test_damaged.py::test_the_others_go_on_it_is_named_and_nothing_is_lost",
    ),
    Mutation(
        "ingest",
        "what makes a repository's first change pending marks it",
        "ingest/pending.py",
        "            writes.append(mark_write(uid))",
        "            pass",
        "ingest/test_clock.py::test_a_minute_costs_a_read_for_each_repository_with_something_pending[1-1]",
    ),
    Mutation(
        "ingest",
        "a mark is taken away only if it is the one that was seen",
        "ingest/waiting.py",
        'tables.delete(Key(PARTITION, uid.encode()), Matches({"mark": mark}))',
        "tables.delete(Key(PARTITION, uid.encode()))",
        "ingest/test_clock.py::test_what_lands_beside_the_clock_is_not_forgotten",
    ),
    Mutation(
        "ingest",
        "all repositories are looked at now and then",
        "ingest/waiting.py",
        "not isinstance(looked, int) or not 0 <= now - looked < ALL_EVERY",
        "False",
        "ingest/test_clock.py::test_all_repositories_are_looked_at_now_and_then",
    ),
    Mutation(
        "ingest",
        "who has little time begins elsewhere in the next minute",
        "ingest/due.py",
        "first = int(now // _MINUTE) % len(current) if current else 0",
        "first = 0",
        "ingest/test_clock.py::test_who_has_little_time_comes_to_each_repository_in_its_turn",
    ),
    Mutation(
        "ingest",
        "what waits for too long is told",
        "ingest/due.py",
        "if waits and late >= LATE:",
        "if False:",
        "ingest/test_clock.py::test_what_is_pending_for_too_long_is_told[window]",
    ),
    Mutation(
        "ingest",
        "a window that waits is counted by itself, however many are late",
        "ingest/pending.py",
        "joined = late[:2] if len(late) > 1 else begins[-2:]",
        "joined = begins[-2:]",
        "ingest/test_windows.py::test_an_item_stays_small_and_what_comes_puts_nothing_off",
    ),
    Mutation(
        "strangers",
        "a commit's own date does not age what it replaces",
        "retention/roots.py",
        "made = published_at(commit.created, item)",
        "made = commit.created",
        "security/test_commit_dates.py::test_a_commit_dated_long_ago_does_not_age_what_it_replaces[merge]",
    ),
]


ON_SPARK: Final = ROOT / ".venv-spark/bin/python"
"""The environment of Spark's tests (``make spark-tools``)."""


def run(package: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """The tests, of one environment, in their whole form, on a copy of the package that lies in the folder."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=line"]
    python = str(ON_SPARK) if is_sparks(tests[0]) else sys.executable
    command = [python, "-m", "pytest", *options, *(f"tests/{test}" for test in tests)]
    whole = {"GRAVELER_WHOLE": "1", "GRAVELER_EXAMPLES": "250"}
    environment = {**os.environ, **whole, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def is_sparks(test: str) -> bool:
    """Whether a test needs Spark's environment."""
    return test.startswith("spark/")


def copied(folder: str) -> Path:
    """A folder with a copy of the package in it."""
    shutil.copytree(PACKAGE, Path(folder) / "graveler", ignore=shutil.ignore_patterns("__pycache__"))
    return Path(folder)


def survives(mutation: Mutation) -> str:
    """What is wrong: the test passes without the line, or does not run at all. Empty if nothing is."""
    with TemporaryDirectory() as folder:
        package = copied(folder)
        source = package / "graveler" / mutation.file
        source.write_text(source.read_text().replace(mutation.line, mutation.instead))
        done = run(package, mutation.test)
        return "" if done.returncode == 1 else f"status {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}"


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Print the table; 1 if there is a line that nobody misses."""
    with TemporaryDirectory() as folder:
        package = copied(folder)
        tests = sorted({mutation.test for mutation in MUTATIONS}, key=lambda test: (is_sparks(test), test))
        for _, some in groupby(tests, is_sparks):
            done = run(package, *some)
            if done.returncode:
                tell(done.stdout[-2000:])
                tell("the tests fail with every line in place")
                return 1
    with ThreadPoolExecutor(2) as pool:
        wrong = list(pool.map(survives, MUTATIONS))
    for mutation, why in zip(MUTATIONS, wrong, strict=True):
        tell(f"{mutation.promise}  {'MISSED BY NOBODY' if why else 'found'}  {mutation.file:22}  {mutation.rule}")
        tell(f"        {mutation.test}{f'  {why}' if why else ''}")
    tell(f"{wrong.count('')} of {len(wrong)} found")
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
