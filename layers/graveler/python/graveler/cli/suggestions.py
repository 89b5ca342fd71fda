"""Commands that people know from git, lakectl and shells, and what does their work here. Loaded only for an unknown command."""

from collections.abc import Mapping
from typing import Final

_CHECKOUT: Final = (
    "nothing is checked out: name the branch in each path, lakefs://REPOSITORY/BRANCH/PATH; `graveler branch create` makes a "
    "branch, and `graveler export` writes a ref's files to a folder"
)
_ADD: Final = "an upload is staged at once: use `graveler put FILE URI`, then `graveler commit`"
_PULL: Final = (
    "every command reads the lake itself, so there is no copy to update; `graveler export` updates a folder of files"
)
_BLAME: Final = "use `graveler blame`"
_CREATE_LAKE: Final = "use `graveler init` for a lake, `graveler repo create` for a repository"
_FS: Final = "objects have commands of their own: `graveler put`, `get`, `ls`, `stat`, `cat`, `cp`, `mv`, `rm`"
_RM: Final = "use `graveler rm` for objects, or `delete` of `graveler branch`, `graveler tag` and `graveler repo`"
_RESET: Final = "use `graveler reset`, which drops uncommitted changes"
_SHOW: Final = "use `graveler show`, which resolves any ref"
_EXPORT: Final = "`graveler export` writes a ref's files to a folder and keeps it up to date; nothing is checked out"
_SQL: Final = "use `graveler sql`, which reads tables, objects and history"
_KEYS: Final = "use `graveler principals` or `graveler keys`"
_PIPELINE: Final = (
    "graveler runs no pipelines; start a step with `graveler run`, which publishes all of its writes, or none"
)
_HOOKS: Final = "no command runs on a commit or a merge; check a branch, then merge it: `graveler merge`"

_COMMANDS: Final[Mapping[str, str]] = {
    "abuse": "use `graveler bench`, which measures a lake",
    "actions": _HOOKS,
    "add": _ADD,
    "amend": "a commit never changes; `graveler undo` goes back to the one before it, and `graveler revert` undoes its changes",
    "annotate": _BLAME,
    "archive": _EXPORT,
    "auth": _KEYS,
    "bisect": "each step is a ref: `graveler log` lists commits, `graveler show REF` and `graveler sql` look into one",
    "branches": "use `graveler branch list REPOSITORY`",
    "checkout": _CHECKOUT,
    "clone": "a branch is a copy at no cost: use `graveler branch create`; `graveler export` writes a ref's files to a folder",
    "completion": "use `graveler --install-completion`, or `graveler --show-completion`",
    "create": _CREATE_LAKE,
    "dag": _PIPELINE,
    "delete": _RM,
    "describe": _SHOW,
    "discard": _RESET,
    "exp": _PIPELINE,
    "download": "use `graveler get`, or `graveler export` for a folder that is kept up to date",
    "fetch": _PULL,
    "fs": _FS,
    "grep": _SQL,
    "hook": _HOOKS,
    "hooks": _HOOKS,
    "identity": "`graveler doctor` shows the lake and the profile in use, `graveler config get user` the name of the author",
    "lfs": "objects may have any size: use `graveler put FILE URI`, then `graveler commit`",
    "list": "use `graveler ls` for objects, `graveler branch list`, `graveler tag list` or `graveler repo list`",
    "local": _EXPORT,
    "ls-files": "use `graveler ls -r`",
    "metastore": _SQL,
    "mkdir": "folders need not be made: a path may hold any slashes; use `graveler put FILE URI`",
    "move": "use `graveler mv`",
    "copy": "use `graveler cp`",
    "new": _CREATE_LAKE,
    "prune": "use `graveler gc plan`, then `graveler gc run`",
    "pull": _PULL,
    "push": "a commit is in the lake at once; to upload files, use `graveler put -r FOLDER URI`, then `graveler commit`",
    "query": _SQL,
    "rebase": "use `graveler merge`, with --squash for a single commit, or `graveler cherry-pick` for one commit",
    "refs-dump": "use `graveler dump`",
    "refs-restore": "use `graveler restore`",
    "remote": "name a lake with `--lake` or GRAVELER_LAKE; `graveler import` brings in objects of other places",
    "remove": _RM,
    "repro": _PIPELINE,
    "repos": "use `graveler repo list`",
    "rev-parse": _SHOW,
    "setup": _CREATE_LAKE,
    "squash": "use `graveler merge --squash`",
    "stage": _ADD,
    "stash": "uncommitted changes stay on their branch; work on another one meanwhile: use `graveler branch create`",
    "submodule": "a lake has any number of repositories: use `graveler repo create`",
    "switch": _CHECKOUT,
    "tags": "use `graveler tag list REPOSITORY`",
    "unstage": _RESET,
    "upload": "use `graveler put`",
    "users": _KEYS,
    "worktree": _CHECKOUT,
}

_ACTIONS: Final[Mapping[str, str]] = {
    "add": "create",
    "init": "create",
    "ls": "list",
    "move": "rename",
    "mv": "rename",
    "new": "create",
    "remove": "delete",
    "rm": "delete",
}


def instead_of(group: str, word: str) -> str:
    """Return what to use in place of command ``word`` of a group (``graveler``, ``graveler branch``); "" for an unknown word."""
    if group == "graveler":
        return _COMMANDS.get(word, "")
    if group == "graveler branch" and word in ("checkout", "switch"):
        return _CHECKOUT
    if group == "graveler config" and "." in word:
        return "use `graveler config set user NAME`"
    action = _ACTIONS.get(word)
    return "" if action is None else f"use `{group} {action}`"
