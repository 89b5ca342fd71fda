"""Wrong command lines of the kinds that newcomers type, also out of habit from git, lakectl and DVC: the answer is one line that
says what to type."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from graveler.cli.usage import _OPTIONS
from tests.cli.support import commit, done, put, run
from tests.cli.test_options import COMMANDS, ROOT, options

NO_DEFAULT = (
    "it does not start with lakefs://, and there is no default repository (`graveler use lakefs://REPOSITORY/BRANCH`"
)

WRONG: list[tuple[str, str]] = [
    # Missing arguments and options.
    ("commit", "the message is missing: say what changed, as in `graveler commit [BRANCH] -m 'Add June'`"),
    ("commit lakefs://lake/main 'Fix it'", "as in `graveler commit [BRANCH] -m 'Add June'`; see `graveler commit --help`"),
    ("commit lakefs://lake/main Fix -m it", "write `graveler commit [BRANCH] -m 'TEXT'`, where the message follows -m"),
    ("commit -m x", "an argument is missing: lakefs://REPOSITORY/BRANCH, since there is no default repository; `graveler use"),
    ("put f.csv", "an argument is missing: write `graveler put FILE... URI`"),
    ("import .", "an argument is missing: write `graveler import SOURCE... URI`"),
    ("reset --hard", "--hard needs a value: write `graveler reset BRANCH --hard REF`; see `graveler reset --help`"),
    ("commit -m", "-m needs a value: write `graveler commit [BRANCH] -m 'TEXT'`; see `graveler commit --help`"),
    ("gc", "a command is missing: `graveler gc plan`, `graveler gc run`"),
    ("ingest", "a command is missing: `graveler ingest "),
    ("ls lakefs://", "a repository is missing; `graveler repo list` lists all repositories"),
    ("cherry-pick lakefs://lake/merged main", "to compare with: `--parent 1` (the branch merged into) or `--parent 2`"),
    ("revert lakefs://lake/main~2..main main", "is a range, and each revert takes one commit: name them one by one, the newest"),
    ("cherry-pick lakefs://lake/main~2..dev main", "each cherry-pick takes one commit: name them one by one, the oldest first"),
    ("branch create lakefs://lake/feat/x", "0-9, '_' and '-'; write `graveler branch create lakefs://lake/feat-x`"),
    ("--install-completion nosuchshell", "there is completion for bash, zsh, fish, powershell, pwsh; name one of them, or none"),
    ("--show-completion ls", "--show-completion ls: there is completion for bash, zsh, fish, powershell, pwsh"),
    ("merge", "Missing argument 'SOURCE'; write `graveler merge SOURCE [BRANCH]`"),
    ("merge lakefs://lake/dev", "an argument is missing: BRANCH, since there is no default repository; `graveler use"),
    ("undo", "an argument is missing: lakefs://REPOSITORY/BRANCH, since there is no default repository; `graveler use"),
    ("reset --hard main~1", "Missing argument 'URI'; write `graveler reset URI`, or `graveler reset BRANCH --hard REF`"),
    ("import", "an argument is missing: write `graveler import SOURCE... URI`, or `graveler import --listing FILE... URI`"),
    ("repo create", "Missing argument 'REPOSITORY'; write `graveler repo create REPOSITORY`"),
    ("repo create new s3://b/x", "write `graveler repo create REPOSITORY`, where --namespace URL says where its objects are"),
    ("repo list lake", "Got unexpected extra argument(s) (lake); write `graveler repo list`"),
    ("get lakefs://lake/main/raw/ out", "To work on everything below it, use -r (get, cp, mv, rm)"),
    # Another order.
    ("put lakefs://lake/main/raw/ f.csv", "'f.csv' is on this machine; in put and import it stands before the place in the lake"),
    ("import lakefs://lake/main/x/ .", "'.' is on this machine; in put and import it stands before the place in the lake"),
    ("revert lakefs://lake/main main~1", "the commit comes first, then the branch: `graveler revert lakefs://lake/main~1 main`"),
    # Paths without a scheme, with another one, of another repository.
    ("ls lake/main/raw", f"{NO_DEFAULT} chooses one). Did you mean lakefs://lake/main/raw?"),
    ("put f.csv main/raw/", "Did you mean lakefs://lake/main/raw/?"),
    ("put f.csv /lake/main/raw/", "paths in a lake begin without '/'. Did you mean lakefs://lake/main/raw/?"),
    ("put f.csv lakefs:/lake/main/raw/", "Did you mean lakefs://lake/main/raw/?"),
    ("put f.csv s3://lake/main/raw/", "is not of the form lakefs://REPOSITORY/REF/PATH: it does not start with lakefs://"),
    ("merge dev main", "Did you mean lakefs://lake/dev?"),
    ("log main~1", "Did you mean lakefs://lake/main~1?"),
    ("diff main..dev", "Did you mean lakefs://lake/main..dev?"),
    ("ls lake", "'lake' is a repository: write lakefs://lake/BRANCH/"),
    ("ls lakefs://lake", "nothing follows the repository; `graveler branch list lake` lists its branches"),
    ("ls lakefs://main/raw/", "'main' is a branch of 'lake': write lakefs://lake/main."),
    ("use main", "'main' is a branch of 'lake': write lakefs://lake/main. `graveler repo list` lists all repositories"),
    ("merge lakefs://lake/dev lakefs://other/main", "is not in repository 'lake'; both refs must be in the same repository"),
    ("show lakefs://lake/main/raw/f.csv", "A path cannot stand here, only a ref, such as lakefs://lake/main"),
    ("cat lakefs://lake/main", "a path is missing. `graveler ls lakefs://lake/main/` lists what there is"),
    ("import . lakefs://lake/main/x", "a folder is imported into a folder, but 'x' does not end with '/': write 'x/'"),
    # Typos.
    ("comit -m x", "No such command 'comit'. Did you mean 'commit'?"),
    ("branch lst", "No such command 'lst'. Did you mean 'list'?"),
    ("ls lakefs://lake/main/ --recurive", "No such option: --recurive (Possible options: --recursive)"),
    ("ls lakefs://lake/mian/", "Did you mean 'main'?"),
    ("cat lakefs://lake/main/raw/f.cvs", "Did you mean 'raw/f.csv'?"),
    ("repo show lakee", "Did you mean 'lake'?"),
    ("log lakefs://lake/main@{1 hour ago}", "a shell cuts a ref at its spaces; put it in quotes, or write dots"),
    ("log 'lakefs://lake/main@{1 houre ago}'", "or how long ago: 1 hour ago, 90m, 3d or yesterday"),
    ("merge lakefs://lake/dev main --strategy source", "--strategy 'source' is none of source-wins, dest-wins"),
    ("merge lakefs://lake/dev main --strategy =source-wins", "--strategy '=source-wins' is none of source-wins"),
    # Habits from git.
    ("log HEAD", "Nothing is checked out, so there is no HEAD: name the branch, as in lakefs://REPOSITORY/main"),
    ("revert lakefs://lake/HEAD~1 main", "there is no HEAD: name the branch, as in lakefs://REPOSITORY/main~1"),
    ("commit -am Fix", "there is no option -a: every change is staged already: use `graveler commit -m TEXT`"),
    ("commit --amend", "there is no option --amend: a commit never changes; `graveler undo` goes back to the one before"),
    ("log -5", "there is no option -5: use -n 5"),
    ("log lakefs://lake/main --stat", "there is no option --stat: use `graveler show REF --stat`"),
    ("diff --cached", "`graveler status` shows what is not committed, and so does `graveler diff` without refs"),
    ("status -s", "there is no option -s: leave it out: it shows a line for each change"),
    ("branch -d dev", "there is no option -d: use `graveler branch delete BRANCH`"),
    ("branch new-idea", "`graveler branch create new-idea` creates it, `graveler branch list` lists what there is"),
    ("tag v1 main", "`graveler tag create v1 main` creates it"),
    ("tag -a v1 -m x", "use `graveler tag create TAG REF`; a tag has no message"),
    ("merge lakefs://lake/dev --no-ff", "leave it out: each merge is a commit; --squash makes one with a single parent"),
    ("rm -rf lakefs://lake/main/raw/", "there is no option -f: use --yes, which removes without a question"),
    ("checkout -b dev", "there is no command `graveler checkout`: nothing is checked out: name the branch in each path"),
    ("config --global user.name Ada", "use `graveler config set KEY VALUE`, `graveler config get KEY` or `graveler config list`"),
    ("config user.name Ada", "use `graveler config set user NAME`"),
    # Habits from lakectl and DVC.
    ("fs upload -s f.csv lakefs://lake/main/x", "objects have commands of their own: `graveler put`, `get`, `ls`"),
    ("put -s f.csv lakefs://lake/main/x", "there is no option -s: write the file first: `graveler put FILE URI`"),
    ("log lakefs://lake/main --amount 3", "there is no option --amount: use -n N"),
    ("branch revert lakefs://lake/main main~1", "there is no command `graveler branch revert`: use `graveler revert`"),
    ("push", "a commit is in the lake at once; to upload files, use `graveler put -r FOLDER URI`, then `graveler commit`"),
    ("add f.csv", "an upload is staged at once: use `graveler put FILE URI`, then `graveler commit`"),
    ("completion bash", "there is no command `graveler completion`: use `graveler --install-completion`"),
    ("get f.csv lakefs://lake/main/raw/f.csv", "is in a lake, and FILE is on this machine: write `graveler get URI FILE`"),
    ("get lakefs://lake/main/raw/f.csv lakefs://lake/dev/x", "write `graveler get URI FILE`; `graveler cp` copies within a lake"),
    ("get -r lakefs://lake/main/raw/ graveler://lake/dev/", "write `graveler get URI FILE`; `graveler cp` copies within a lake"),
    ("export out lakefs://lake/main/", "is in a lake, and FOLDER is on this machine: write `graveler export URI FOLDER`"),
    ("put f.csv lakefs://lake/once/x", "is no branch: `graveler branch create lakefs://lake/NAME once` makes one there"),
    ("put f.csv lakefs://lake/main~0/x", "is no branch: `graveler branch create lakefs://lake/NAME main~0` makes one"),
    ("put f.csv lakefs://lake/main@/x", "is no branch: `graveler branch create lakefs://lake/NAME main@` makes one"),
    ("rm lakefs://lake/once/raw/f.csv", "is no branch: `graveler branch create lakefs://lake/NAME once` makes one"),
    ("merge lakefs://lake/dev once", "is no branch: `graveler branch create lakefs://lake/NAME once` makes one"),
    ("commit lakefs://lake/once -m x", "is no branch: `graveler branch create lakefs://lake/NAME once` makes one"),
    ("commit lakefs://lake/main~0 -m x", "is no branch: `graveler branch create lakefs://lake/NAME main~0` makes one"),
    ("blame lakefs://lake/main/nosuch/", "no path in 'main' starts with 'nosuch/'. `graveler ls lakefs://lake/main/` lists"),
    ("restore f.csv", "to drop uncommitted changes, use `graveler reset URI`"),
    ("grep word", "there is no command `graveler grep`: use `graveler sql`"),
    ("bisect start", "there is no command `graveler bisect`: "),
    ("ls-files", "there is no command `graveler ls-files`: use `graveler ls -r`"),
    ("worktree add x", "there is no command `graveler worktree`: nothing is checked out"),
    ("archive main", "there is no command `graveler archive`: `graveler export` writes"),
    ("lfs track x", "there is no command `graveler lfs`: "),
    ("local clone lakefs://lake/main", "there is no command `graveler local`: `graveler export`"),
    ("auth users list", "`graveler auth`: use `graveler principals` or `graveler keys`"),
    ("identity", "there is no command `graveler identity`: "),
    ("actions runs list lakefs://lake", "there is no command `graveler actions`: "),
    ("refs-dump lakefs://lake", "there is no command `graveler refs-dump`: use `graveler dump`"),
    ("dag", "there is no command `graveler dag`: "),
    ("repro", "there is no command `graveler repro`: "),
    ("help topics", "the topics are commands, options, refs, environment, exit-codes"),
    ("config get nonsense", "the settings are endpoint"),
]  # fmt: skip

WRONG_WITH_DEFAULT: list[tuple[str, str]] = [
    ("ls dev", "'dev' is a ref: write lakefs://lake/dev/."),
    ("ls dev/", "'dev' is a ref: write lakefs://lake/dev/."),
    ("cat dev/raw/f.csv", "'dev' is a ref: write lakefs://lake/dev/raw/f.csv."),
    ("ls main~1", "'main~1' is a ref: write lakefs://lake/main~1/."),
    ("ls 'main@{0}'", "'main@{0}' is a ref: write lakefs://lake/main@{0}/."),
    ("ls once/", "'once' is a ref: write lakefs://lake/once/."),
    ("put f.csv", "an argument is missing: write `graveler put FILE... URI`"),
    ("put lakefs://lake/main/raw/ f.csv", "is in a lake, and the source comes first: write `graveler put FILE URI`"),
    ("put lakefs://lake/main/raw/ . -r", "write `graveler put FILE URI`; `graveler cp` copies within"),
    ("import lakefs://lake/main/x/ .", "and the source comes first: write `graveler import SOURCE URI`"),
    ("import graveler://lake/main/x/ folder", "and the source comes first: write `graveler import SOURCE URI`"),
    ("log lake/main", "'lake' is a repository: write lakefs://lake/main."),
    ("log lakefs:/lake/main", "Did you mean lakefs://lake/main?"),
    ("log lakefs//lake/main", "Did you mean lakefs://lake/main?"),
    ("log '@{1 hour ago}'", "a branch, a tag or a commit ID is missing here: write main@{1 hour ago}"),
    ("log @{9}", "a branch, a tag or a commit ID is missing here: write main@{9}"),
    ("log main@{99}", "has only 2 moves. `graveler reflog lakefs://lake/main` lists its moves"),
    ("log main@{yesterday}", "created later. `graveler reflog lakefs://lake/main` lists its moves"),
    ("log main~99", "only 2 commits along first parents. `graveler log lakefs://lake/main` lists its commits"),
]  # fmt: skip
"""The same, where a default repository and branch have been chosen."""


@pytest.fixture
def used_lake(lake: Path) -> None:
    """A lake with a commit on main, the branch dev, and a file beside it; no default repository."""
    put("main", "raw/f.csv", "1")
    commit("main", "One")
    done("branch", "create", "lakefs://lake/dev")
    done("tag", "create", "lakefs://lake/once", "main")
    Path("f.csv").write_text("1")


@pytest.mark.usefixtures("used_lake")
def test_a_wrong_call_is_answered_with_what_to_type() -> None:
    _merge_into_a_branch()
    _check_answers(WRONG)


@pytest.mark.usefixtures("used_lake")
def test_a_wrong_call_with_a_default_branch_is_answered_with_what_to_type() -> None:
    done("use", "lakefs://lake/main")
    _check_answers(WRONG_WITH_DEFAULT)


def _merge_into_a_branch() -> None:
    """Make a branch whose head is a merge."""
    done("branch", "create", "lakefs://lake/merged")
    put("dev", "raw/g.csv", "1")
    commit("dev", "Two")
    done("merge", "lakefs://lake/dev", "merged")


def _check_answers(wrong: Sequence[tuple[str, str]]) -> None:
    """Run each wrong call, which is to be answered in one line, and to change nothing."""
    before = done("log", "lakefs://lake/main", "--json").out, done("status", "lakefs://lake/main", "--json").out
    for line, answer in wrong:
        refused = run(*shlex.split(line))
        assert (refused.code in (2, 3), refused.out, refused.err.count("\n")) == (True, "", 1), (line, refused)
        assert answer in refused.err, (line, refused.err)
    assert (
        done("log", "lakefs://lake/main", "--json").out,
        done("status", "lakefs://lake/main", "--json").out,
    ) == before


@pytest.mark.usefixtures("used_lake")
def test_an_empty_diff_says_which_question_it_answered() -> None:
    done("use", "lakefs://lake/main")
    for path, warning in (
        ("HEAD~1", "'main' has no path 'HEAD~1', with or without what is staged. Nothing is checked out, so there is no"),
        ("nosuch.csv", "with or without what is staged. `graveler ls lakefs://lake/main/` lists what there is"),
        ("nosuch/", "warning: 'main' has no path 'nosuch/'"),
        ("dev", "warning: 'dev' was taken for a path on 'main'; `graveler diff lakefs://lake/main..dev` compares"),
    ):  # fmt: skip
        empty = run("diff", path)
        assert (empty.code, empty.out) == (0, "no uncommitted changes\n")
        assert warning in empty.err, path
    assert done("diff", "raw/f.csv").err == ""
    assert done("diff", "raw/").err == ""
    assert done("diff", "raw").err == ""


@pytest.mark.usefixtures("used_lake")
def test_a_reset_of_nothing_says_what_it_was_taken_for() -> None:
    done("use", "lakefs://lake/main")
    for path, warning in (
        ("dev", "warning: 'dev' was taken for a path on 'main'; `graveler reset lakefs://lake/dev` drops changes of that branch"),
        ("main", "warning: 'main' was taken for a path on 'main'; `graveler reset lakefs://lake/main` drops changes of that"),
        ("nosuch", "warning: 'main' has no path 'nosuch', with or without what is staged. `graveler ls lakefs://lake/main/`"),
    ):  # fmt: skip
        empty = run("reset", path)
        assert (empty.code, empty.out) == (0, "dropped 0 uncommitted changes\n")
        assert warning in empty.err, path
    assert done("reset", "raw/f.csv").err == ""


@pytest.mark.usefixtures("lake")
def test_groups_alone_list() -> None:
    assert done("repo").out == done("repo", "list").out
    run("config", "set", "user", "ada")
    assert "user = ada" in done("config").out
    assert done("config").out == done("config", "list").out


@pytest.mark.usefixtures("used_lake")
def test_no_hint_is_given_where_none_is_sure() -> None:
    done("repo", "create", "other")
    assert "Did you mean" not in run("ls", "main/raw/").err, "two repositories may have this branch"
    assert "Did you mean lakefs://other/main?" in run("ls", "other/main").err
    assert "is a branch of" not in run("ls", "lakefs://main/").err
    assert run("ls", "nothing/x").err.endswith("chooses one)\n")


def test_no_option_of_another_tool_is_one_here() -> None:
    for words, instead in _OPTIONS.items():
        command = COMMANDS.get(tuple(words.split()), ROOT.commands.get(words))
        assert command is not None, words
        names = options(command) | {text for param in command.params for text in param.opts}
        assert names.isdisjoint(instead), words
