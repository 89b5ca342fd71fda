"""Checks by commands: programs of the lake's own settings, which rules can only name."""

import json
from typing import Final

from graveler.errors import InvalidError
from graveler.lake.gates.checks.child_process import run_child
from graveler.lake.gates.checks.definitions import CommandCheck
from graveler.lake.gates.checks.inputs import CheckInput
from graveler.lake.gates.checks.verdicts import MOST_WORDS, Verdict
from graveler.model import StatusState

_MOST_OUTPUT: Final = 64 << 10


def check_command(definition: CommandCheck, source: CheckInput, check: str) -> Verdict:
    """Run the command with the document about the candidate on its standard input; exit code 0 passes. The words are the end of
    what it printed. Its environment has no secrets of this process, and the document's IDs as GRAVELER_CHECK_CANDIDATE and so on.
    """
    command = source.settings.commands.get(definition.name)
    if command is None:
        raise InvalidError(f"the settings of checks have no command {definition.name!r} any more; add it again")
    document = source.document(check)
    ending = run_child(
        command,
        json.dumps(document).encode(),
        seconds=definition.seconds,
        most_output=_MOST_OUTPUT,
        stop=source.stop,
        variables={
            f"GRAVELER_CHECK_{name.upper()}": document[name] or ""
            for name in ("check", "repository", "candidate", "base", "metarange")
        },
    )
    # The last lines say most: programs print their result at the end, and their errors last of all.
    texts = [data.decode(errors="replace").strip() for data in (ending.output, ending.errors)]
    words = source.masked("\n".join(filter(None, texts)))[-MOST_WORDS // 2 :]  # before a cut could split a secret
    if ending.code == 0:
        return Verdict(StatusState.SUCCESS, words)
    sentence = f"command {definition.name!r}: {ending.reason}" + (f": {words}" if words else "")
    # A command that was ended has not said that the candidate is bad.
    return (
        Verdict(StatusState.ERROR, sentence)
        if ending.code is None or ending.code < 0
        else Verdict(StatusState.FAILURE, sentence)
    )
