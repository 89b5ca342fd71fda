"""Requests as methods with keywords, such as ``repository.merge("dev", "main", message="June")``: derived from their fields.

They are for interactive use and for tests. Programs of this package build requests, which type checkers compare with the fields.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import Parameter, Signature
from pathlib import Path
from types import MethodType
from typing import Any, Final, Generic, TypeVar, get_origin

from graveler import requests
from graveler.lake.context import UNLIMITED, Context
from graveler.model import MergeStrategies, MergeStrategy
from graveler.requests.base import CommitInfo, Request
from graveler.requests.fields import fields_of

T = TypeVar("T")

_INFO: Final[Mapping[str, str]] = {
    "message": "message",
    "committer": "author",
    "metadata": "metadata",
    "request_id": "request_id",
    "created": "created",
}
"""Parameters that together are the field ``info``, and their names there."""
_CONTEXT: Final[Mapping[str, str]] = {"by": "by", "progress": "progress", "accept": "accept", "data": "body"}
"""Parameters that belong to the context, and their names there."""
_NAMES: Final[Mapping[str, str]] = {"objects": "paths", "sources": "addresses", "strategies": "strategy"}
"""Fields whose parameter has another name."""


class _Method(Generic[T]):
    """A method that makes a request from its arguments and runs it."""

    def __init__(self, load: Callable[[], type[Request[T]]], positional: tuple[str, ...]) -> None:
        self._load = load
        self._more = positional

    @cached_property
    def _kind(self) -> type[Request[T]]:
        return self._load()

    @cached_property
    def _positional(self) -> tuple[str, ...]:
        required = [name for name, field in fields_of(self._kind).items() if field.is_required]
        return (*(_NAMES.get(name, name) for name in required), *self._more)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return f"See :class:`{self._kind.__module__}.{self._kind.__name__}`."

    @property
    def __signature__(self) -> Signature:
        keywords: dict[str, Any] = {}
        for name, field in fields_of(self._kind).items():
            keywords |= dict.fromkeys(_INFO) if name == "info" else {_NAMES.get(name, name): field.default}
        keywords |= {"by": "", "progress": None}
        parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *self._positional)]
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default)
            for name, default in keywords.items()
            if name not in self._positional
        ]
        return Signature(parameters)

    def __get__(self, repository: Any, owner: type[Any] | None = None) -> Any:
        return self if repository is None else MethodType(self, repository)

    def __call__(self, repository: "KeywordMethods", /, *values: Any, **keywords: Any) -> T:
        if len(values) > len(self._positional):
            raise TypeError(f"{len(values)} values are too many; the parameters are {', '.join(self._positional)}")
        for name, value in zip(self._positional, values, strict=False):
            if name in keywords:
                raise TypeError(f"got multiple values for argument {name!r}")
            keywords[name] = value
        context = {_CONTEXT[name]: keywords.pop(name) for name in _CONTEXT if name in keywords}
        arguments: dict[str, Any] = {}
        for name, field in fields_of(self._kind).items():
            if name == "info":
                info = {_INFO[word]: keywords.pop(word) for word in _INFO if keywords.get(word) is not None}
                arguments[name] = CommitInfo(**info)
                continue
            value = keywords.pop(_NAMES.get(name, name), field.default)
            if value is not field.default and (value is not None or field.is_required):
                arguments[name] = _converted(value, field.type)
        for word in _INFO:
            if keywords.get(word, "") is None:
                del keywords[word]
        return repository.run(self._kind(**arguments, **keywords), Context(**context))


def _converted(value: Any, type_: Any) -> Any:
    """Return an argument as a value of a field."""
    if type_ is MergeStrategies:
        return strategies_of(value)
    if value is None or not any(get_origin(part) is tuple for part in (type_, *getattr(type_, "__args__", ()))):
        return value
    return (value,) if isinstance(value, Path) else tuple(value)


def _method(load: Callable[[], type[Request[T]]], *positional: str) -> Callable[..., T]:
    """Return a method that runs requests of a kind. Besides its required fields, ``positional`` parameters need no keyword."""
    method: Any = _Method(load, positional)
    return method  # type: ignore[no-any-return]


class KeywordMethods(ABC):
    """Methods that each make a request from their arguments and run it. A server records the owner of the access key, whatever
    ``committer`` says."""

    @abstractmethod
    def run(self, request: Request[T], context: Context = UNLIMITED) -> T:
        """Run a request. Its class documents its effect, cost and errors."""
        ...

    set_metadata = _method(lambda: requests.setting_changes.SetMetadata)
    delete_metadata = _method(lambda: requests.setting_changes.DeleteMetadata)
    set_protection = _method(lambda: requests.setting_changes.SetProtection)
    protect = _method(lambda: requests.setting_changes.Protect)
    unprotect = _method(lambda: requests.setting_changes.Unprotect)
    set_retention = _method(lambda: requests.setting_changes.SetRetention)
    delete_retention = _method(lambda: requests.setting_changes.DeleteRetention)
    set_import_sources = _method(lambda: requests.setting_changes.SetImportSources)
    set_read_only = _method(lambda: requests.setting_changes.SetReadOnly)
    set_rules = _method(lambda: requests.setting_changes.SetRules)
    publish_candidate = _method(lambda: requests.committing.PublishCandidate)
    withdraw_candidate = _method(lambda: requests.committing.WithdrawCandidate)
    commit_tables = _method(lambda: requests.iceberg.CommitTables)
    create_table = _method(lambda: requests.iceberg.CreateTable)
    register_table = _method(lambda: requests.iceberg.RegisterTable)
    drop_relation = _method(lambda: requests.iceberg.DropRelation)
    rename_relation = _method(lambda: requests.iceberg.RenameRelation)
    create_view = _method(lambda: requests.iceberg.CreateView)
    register_view = _method(lambda: requests.iceberg.RegisterView)
    replace_view = _method(lambda: requests.iceberg.ReplaceView)
    create_namespace = _method(lambda: requests.iceberg.CreateNamespace)
    drop_namespace = _method(lambda: requests.iceberg.DropNamespace)
    set_namespace_properties = _method(lambda: requests.iceberg.SetNamespaceProperties)
    create_branch = _method(lambda: requests.refs.CreateBranch)
    renew_branch = _method(lambda: requests.refs.RenewBranch)
    release_branch = _method(lambda: requests.refs.ReleaseBranch)
    delete_branch = _method(lambda: requests.refs.DeleteBranch)
    rename_branch = _method(lambda: requests.refs.RenameBranch)
    hard_reset = _method(lambda: requests.refs.HardReset)
    undo = _method(lambda: requests.refs.Undo)
    create_tag = _method(lambda: requests.refs.CreateTag)
    delete_tag = _method(lambda: requests.refs.DeleteTag)
    upload = _method(lambda: requests.staging.Upload, "data")
    link = _method(lambda: requests.staging.Link)
    link_many = _method(lambda: requests.staging.LinkMany)
    delete = _method(lambda: requests.staging.Delete)
    copy = _method(lambda: requests.staging.Copy)
    duplicate = _method(lambda: requests.staging.Duplicate)
    copy_prefix = _method(lambda: requests.staging.CopyPrefix)
    move = _method(lambda: requests.staging.Move)
    move_prefix = _method(lambda: requests.staging.MovePrefix)
    update_metadata = _method(lambda: requests.staging.UpdateMetadata)
    reset = _method(lambda: requests.staging.Reset)
    commit = _method(lambda: requests.committing.Commit, "message")
    commit_metarange = _method(lambda: requests.committing.CommitMetarange, "message")
    rewrite = _method(lambda: requests.committing.Rewrite)
    merge = _method(lambda: requests.merging.Merge)
    revert = _method(lambda: requests.merging.Revert)
    cherry_pick = _method(lambda: requests.merging.CherryPick)
    create_pull_request = _method(lambda: requests.pulls.CreatePullRequest)
    update_pull_request = _method(lambda: requests.pulls.UpdatePullRequest)
    approve_pull_request = _method(lambda: requests.pulls.ApprovePullRequest)
    withdraw_approval = _method(lambda: requests.pulls.WithdrawApproval)
    comment_on_pull_request = _method(lambda: requests.pulls.CommentOnPullRequest)
    merge_pull_request = _method(lambda: requests.pulls.MergePullRequest)
    import_addresses = _method(lambda: requests.importing.ImportAddresses)
    import_folder = _method(lambda: requests.importing.ImportFolder, "destination")
    import_listing = _method(lambda: requests.importing.ImportListing, "options")
    export = _method(lambda: requests.exporting.Export)
    post_status = _method(lambda: requests.statuses.PostStatus)
    run_checks = _method(lambda: requests.statuses.RunChecks)


def strategies_of(strategy: MergeStrategy | MergeStrategies) -> MergeStrategies:
    """Return one strategy for all paths as strategies by prefix."""
    return MergeStrategies(strategy) if isinstance(strategy, MergeStrategy) else strategy
