"""``graveler://`` means the same as ``lakefs://``: to every parser, every command and the default repository."""

from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from graveler.cli import uris
from graveler.cli.exits import ExitCode
from graveler.errors import InvalidError
from graveler.location.configuration import configuration_file
from graveler.values.addresses import SCHEMES, scheme_of, without_scheme
from tests.cli.support import done, put, run
from tests.cli.test_endpoint import ARGUMENTS, prepare_arguments
from tests.cli.test_uris import PARSERS
from tests.support.shell import Shell

REST = st.lists(st.sampled_from(["lake", "/", "main", "..", "...", "~1", "%2F", "é", "a b", "\0", "dev", ""])).map(
    "".join
)


def parsed(parse: Callable[[str], object], text: str) -> object:
    try:
        return parse(text)
    except InvalidError:
        return None


@given(REST)
def test_all_parsers_read_an_address_alike_behind_either_scheme(rest: str) -> None:
    for parse in PARSERS:
        assert parsed(parse, f"graveler://{rest}") == parsed(parse, f"lakefs://{rest}")
    assert [without_scheme(scheme + rest) for scheme in SCHEMES] == [rest, rest]
    assert scheme_of(rest) == ""


def test_two_refs_may_have_a_scheme_each() -> None:
    sides = uris.parse_sides("graveler://lake/main", "lakefs://lake/dev", None)
    assert sides == uris.Sides("lake", "main", "dev", False)


def test_every_command_takes_either_scheme(lake: Path, working_folder: Path) -> None:
    prepare_arguments(working_folder)
    named = {words: line for words, line in ARGUMENTS.items() if "lakefs://" in line}
    assert len(named) > 30
    for words, line in named.items():
        result = run(*words, *line.replace("lakefs://", "graveler://").split())
        assert result.code not in (ExitCode.UNEXPECTED, ExitCode.INVALID, ExitCode.UNAVAILABLE), (words, result)


def test_the_default_repository_may_be_named_by_either_scheme(lake: Path, shell: Shell) -> None:
    put("main", "a", "1")
    assert done("use", "graveler://lake/main").out.startswith("lakefs://lake/main")
    assert done("cat", "a").out == "1"
    for scheme in SCHEMES:
        shell.export("GRAVELER_REPO", f"{scheme}lake/main/")
        assert done("cat", "a").out == "1"
    shell.unset("GRAVELER_REPO")
    file = configuration_file()
    assert file is not None
    for scheme in SCHEMES:
        file.write_text(f'[profiles.default]\nlake = "{lake}"\nrepository = "{scheme}lake"\nbranch = "main"\n')
        assert done("cat", "a").out == "1"
