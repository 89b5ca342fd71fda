"""The verbs for rules of branches and tags: what a commit needs before a name may point to it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler import requests
from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.exits import ExitCode
from graveler.cli.locations import open_lake, open_repository
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import Screen, output
from graveler.cli.uris import parse_ref, parse_repository
from graveler.cli.values import SHORT, count, document_of, moment
from graveler.cli.verbs.repositories import DefaultName
from graveler.errors import InvalidError
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.model import Lack, LakeRules, Rule, Rules

app = Commands(
    help="Say what a commit needs before a branch or tag may point to it: checks, reviews, and who may bypass."
)

OfLake = Annotated[bool, typer.Option("--of-lake", help="The rules of the lake, which hold in many repositories.")]


@app.command()
def show(name: DefaultName = None, of_lake: OfLake = False, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show the rules of a repository, as a file for `rules set`.

    Rules of the lake that hold in the repository are comments there: only --of-lake shows them as a file.

    \b
    Examples:
      graveler rules show quickstart
      graveler rules show --of-lake

    JSON: one document {version, rules}, of the lake {version, rules, in_force}.
    """
    screen = output(as_json=as_json)
    if of_lake:
        _expect_no_repository(name)
        rules: Rules | LakeRules = open_lake(lake).rules()
    else:
        rules = open_repository(lake, parse_repository(name)).rules()
    screen.answer(document_of(rules), *map(screen.safe, _file_lines(rules)))


@app.command("set")
def set_(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file of TOML or JSON; - for stdin.", autocompletion=completion.files),
    ],
    name: DefaultName = None,
    of_lake: OfLake = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Replace the rules of a repository by those in a file.

    They are in force when the command ends, also for changes that are under way. If the file has a `version`, as `rules show`
    writes it, the rules are replaced only if they still have that version. `rules test --rules` tries a file first.

    \b
    Examples:
      graveler rules set rules.toml quickstart
      graveler rules set --of-lake rules.toml

    JSON: one document {version, rules}, as they are now.
    """
    from graveler.wire.rule_documents import LakeRuleChange, RuleChange, read_rules  # only who changes them pays for it

    if of_lake:
        _expect_no_repository(name)
        of_all = read_rules(_read(file), LakeRuleChange, file)
        rules: Rules | LakeRules = open_lake(lake).set_rules(of_all.rules, of_all.version)
    else:
        change = read_rules(_read(file), RuleChange, file)
        request = requests.setting_changes.SetRules(rules=change.rules, if_match=change.version)
        rules = open_repository(lake, parse_repository(name)).run(request)
    sentence = f"{count(len(rules.rules), 'rule')}, version {rules.version}"
    output(as_json=as_json).answer(document_of(rules), sentence)


@app.command("test")
def try_(
    ref: Annotated[
        str, typer.Argument(metavar="REF", help="lakefs://REPOSITORY/REF", autocompletion=completion.branches)
    ],
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="The branch that the commit would come to.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="NAME", help="The tag that it would become.")] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--rules",
            metavar="FILE",
            help="Judge by the rules in this file, instead of those in force.",
            autocompletion=completion.files,
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what a commit would lack for a branch or a tag. Nothing is changed.

    The commit is judged as if a pull request that nobody has approved yet brought it. Uncommitted changes stay out, and no check
    is run: `check run` does that. Ends with code 5 if something is lacking.

    \b
    Examples:
      graveler rules test lakefs://quickstart/dev --branch main
      graveler rules test lakefs://quickstart/dev --branch main \\
        --rules rules.toml

    JSON: one document {rules, lacks, observed}: the names of the rules that
    match, what those that refuse would miss, and what the others would report.
    """
    if (branch is None) == (tag is None):
        raise InvalidError("name either a --branch or a --tag, for which the commit is to be judged")
    target = parse_ref(ref)
    rules: Sequence[Rule] | None = None
    if file is not None:
        from graveler.wire.rule_documents import RuleChange, read_rules  # only for files

        rules = read_rules(_read(file), RuleChange, file).rules
    repository = open_repository(lake, target.repository)
    trial = repository.gates.try_rules(target.ref, branch or tag or "", "branch" if tag is None else "tag", rules)
    screen = output(as_json=as_json)
    lines = [*_lack_lines(screen, trial.lacks, "red"), *_lack_lines(screen, trial.observed, "yellow", "would report: ")]
    if not trial.rules:
        lines = ["no rule matches"]
    elif not lines:
        lines = [screen.paint(f"passes {count(len(trial.rules), 'rule')}", "green")]
    screen.answer(document_of(trial), *lines)
    if trial.lacks:
        raise typer.Exit(ExitCode.PRECONDITION)


@app.command()
def reports(
    name: DefaultName = None,
    amount: Annotated[int, typer.Option("--amount", "-n", metavar="N", help="How many to show.", min=1)] = 20,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what rules that only observe would have refused, the newest first.

    Such a rule has `observe = true`. Reports are kept for 30 days.

    \b
    Example:
      graveler rules reports quickstart

    JSON: a line for each {time, rule, kind, ref, commit_id, lacks}.
    """
    screen = output(as_json=as_json)
    repository = open_repository(lake, parse_repository(name))
    for report in islice(items(lambda after: repository.gates.reports(after, min(amount, 1000))), amount):
        when = screen.paint(moment(report.time), "dim")
        head = f"{when}  {screen.paint(report.commit_id[:SHORT], 'yellow')}  {report.kind} {screen.safe(report.ref)}"
        screen.answer(document_of(report), head, *_lack_lines(screen, report.lacks, "yellow", "  "))


def _lack_lines(screen: Screen, lacks: "Sequence[Lack]", colour: str, before: str = "") -> Iterator[str]:
    """Yield a line for each lack, with the address where its status says more."""
    for lack in lacks:
        more = f"  {screen.safe(lack.url)}" if lack.url else ""
        yield f"{before}{screen.paint(screen.safe(lack.rule), colour)}: {screen.safe(lack.words)}{more}"


def _expect_no_repository(name: str | None) -> None:
    if name is not None:
        raise InvalidError(f"--of-lake is about the rules of the lake, and {name!r} is a repository; omit one of them")


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    return Path(file).read_bytes()


def _file_lines(rules: "Rules | LakeRules") -> Iterator[str]:
    """Yield the lines of a file of TOML with these rules."""
    import tomlkit  # 15 ms, only where it is written

    from graveler.model import LakeRules

    copies = [rule for rule in rules.rules if rule.of_lake]
    file = [rule for rule in rules.rules if not rule.of_lake]
    document = {"version": rules.version, "rules": _without_none(document_of(file))}
    if isinstance(rules, LakeRules) and not rules.in_force:
        yield "# Not in force in all repositories yet: they are being set, or whoever set them stopped midway; set them again"
    yield from tomlkit.dumps(document).splitlines()
    if copies:
        yield ""
        yield "# Rules of the lake, which hold here, too:"
        text = tomlkit.dumps({"rules": _without_none(document_of(copies))})
        yield from (f"# {line}".rstrip() for line in text.splitlines())


def _without_none(value: Any) -> Any:
    """Return a document without null, which TOML does not know. In definitions of checks it means what a missing field does."""
    if isinstance(value, Mapping):
        return {name: _without_none(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_none(inner) for inner in value if inner is not None]
    return value
