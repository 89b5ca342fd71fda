"""Commands of the lake's own settings: exit codes, output, secrets, and processes that do not end."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from graveler.lake.gates.checks.check_settings import CheckSettings
from graveler.lake.gates.checks.child_process import run_child
from graveler.model import Status
from tests.lake.gates.checks.support import ERROR, FAILURE, SUCCESS, Checked, has_ended
from tests.support.shell import Shell

HIDDEN = "a-secret-that-nobody-sees"


@pytest.fixture(scope="module")
def checked() -> Checked:
    return Checked().commit({"a": b"1"})


def run(checked: Checked, script: str, *arguments: str, seconds: int = 20) -> Status:
    settings = CheckSettings(commands={"it": ("sh", "-c", script, "sh", *arguments)}, secrets={"hooks": HIDDEN})
    return checked.status("command", name="it", seconds=seconds, settings=settings)


def test_exit_codes_decide(checked: Checked) -> None:
    good = run(checked, "echo all good")
    assert (good.state, good.description) == (SUCCESS, "all good")
    bad = run(checked, "echo checked 7 rows; echo 2 are bad >&2; exit 3")
    assert bad.state is FAILURE
    assert bad.description == "command 'it': it ended with exit code 3: checked 7 rows\n2 are bad"
    killed = run(checked, "kill -9 $$")
    assert (killed.state, killed.description) == (ERROR, "command 'it': it was killed by SIGKILL")


def test_it_gets_the_document_and_the_ids(checked: Checked) -> None:
    status = run(checked, 'cat; echo; echo "$GRAVELER_CHECK_CANDIDATE $GRAVELER_CHECK_BASE"')
    assert checked.base is not None
    assert f'"candidate":"{checked.candidate.id}"' in run(checked, "tr -d ' '").description
    assert status.description.endswith(f"{checked.candidate.id} {checked.base.id}")
    assert status.commit_id == checked.candidate.id


def test_secrets_are_masked_before_the_output_is_cut(checked: Checked) -> None:
    status = run(checked, f"printf '%s {HIDDEN}' \"$1\"; printf '%0490d' 0", "x" * 3000)
    assert HIDDEN[-10:] not in status.description, "not even its end"
    assert "***000" in status.description
    foreign_secrets = run(checked, "echo key AKIAABCDEFGHIJKLMNOP of https://u:password@x/")
    assert foreign_secrets.description == "key *** of https://***@x/"


def test_a_command_and_its_children_end_in_time(checked: Checked, tmp_path: Path) -> None:
    status = run(checked, 'sleep 600 & echo $! > "$1"; sleep 600', str(tmp_path / "child"), seconds=2)
    assert has_ended(tmp_path / "child"), "nothing that it started goes on"
    assert (status.state, status.description) == (ERROR, "command 'it': its time was up")


def test_output_without_end_is_bounded(checked: Checked) -> None:
    status = run(checked, "head -c 30000000 /dev/zero | tr '\\0' 'x'; echo end")
    assert status.state is SUCCESS
    assert status.description.endswith("xend")
    assert len(status.description) <= 1000


def test_an_entry_that_is_gone_and_a_program_that_is_not_there_are_errors(checked: Checked) -> None:
    missing = checked.status("command", name="gone")
    assert missing.state is ERROR
    assert "no command 'gone' any more" in missing.description
    settings = CheckSettings(commands={"it": ("/no/such/program",)})
    missing = checked.status("command", name="it", settings=settings)
    assert missing.state is ERROR
    assert "there is no program '/no/such/program'" in missing.description


def test_a_command_has_no_secret_variables(checked: Checked, shell: Shell) -> None:
    shell.export("AWS_SECRET_ACCESS_KEY", "secret-of-the-lake")
    shell.export("GRAVELER_CHECKS", '{"secrets": {"hooks": "s3cret"}}')
    assert run(checked, 'test -z "$AWS_SECRET_ACCESS_KEY$GRAVELER_CHECKS"').state is SUCCESS
    shell.export("GRAVELER_CHECKS", "/etc/checks.toml")
    assert run(checked, 'echo "$GRAVELER_CHECKS"').description == "/etc/checks.toml"


def environment_of(arguments: Sequence[str]) -> str:
    ending = run_child(
        arguments, b"", seconds=20, most_output=1 << 16, stop=lambda: None, environment={"PATH": "/usr/bin:/bin"}
    )
    return ending.output.decode()


def test_a_child_has_the_environment_that_it_is_given() -> None:
    output = environment_of([sys.executable, "-c", "import os; print(sorted(os.environ))"])
    assert "GRAVELER" not in output
    assert "PATH" in output


def test_a_child_is_killed_when_nobody_needs_it() -> None:
    calls = 0

    def stop() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyError("ended")

    with pytest.raises(KeyError):
        run_child(["sleep", "600"], b"", seconds=600, most_output=1, stop=stop)
