"""Command-line options made from the fields of a request: a field with help is an option of the request's commands."""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer

from graveler.cli.commands import COMPLETIONS
from graveler.cli.locations import user_name
from graveler.cli.options import parse_metadata
from graveler.errors import InvalidError
from graveler.system.progress import ObjectProgress, no_object_progress

if TYPE_CHECKING:
    from graveler.model import CommitID
    from graveler.remote.any_repository import AnyRepository
    from graveler.requests.base import CommitInfo, Request
    from graveler.requests.fields import RequestField

    Load = Callable[[], type[Request[Any]]]

T = TypeVar("T")
Verb = TypeVar("Verb", bound=Callable[..., None])

_VALUES = "graveler.request"
"""The key of the options' values in the ``meta`` of a context."""


def with_options(load: "Load", before: str, earlier: Mapping[str, str] | None = None) -> Callable[[Verb], Verb]:
    """Give a verb the options of a request, which :func:`request_fields` returns. They stand in front of its parameter
    ``before``, or of the one that ``earlier`` has for a field. ``load`` returns the request's class, when the options are first
    needed."""

    def decorate(verb: Verb) -> Verb:
        setattr(verb, COMPLETIONS, [partial(_insert, load, before, earlier or {})])
        return verb

    return decorate


def request_fields(context: typer.Context, repository: "AnyRepository | None" = None) -> dict[str, Any]:
    """Return the fields of the request that the options of the command set. A field that is a commit is looked up in the
    ``repository``: one request unless its whole ID is given."""
    fields: dict[str, Any] = {}
    for field, value in context.meta.get(_VALUES, {}).values():
        if value is None:
            continue
        if repository is not None and _bare_type(field.type).__name__ == "CommitID":
            value = _commit_id(repository, field.option, value)
        fields[field.name] = tuple(value) if isinstance(value, list) else value
    return fields


def commit_info(message: str, metadata: list[str] | None) -> "CommitInfo":
    """Return the message, author and metadata of a new commit."""
    from graveler.requests.base import CommitInfo

    return CommitInfo(message, user_name(), parse_metadata(metadata))


def run_request(
    repository: "AnyRepository",
    request: "Request[T]",
    *,
    by: str = "",
    progress: ObjectProgress = no_object_progress,
    body: bytes | Path = b"",
) -> T:
    """Run a request for the user, or under the name ``by``."""
    from graveler.lake.context import Context  # not for the help

    return repository.run(request, Context(by=by or user_name(), progress=progress, body=body))


def _insert(load: "Load", before: str, earlier: Mapping[str, str], params: list[Any]) -> None:
    from graveler.requests.fields import fields_of

    fields = [field for field in fields_of(load()).values() if field.words.help]
    for field, option in zip(fields, _options(fields), strict=True):
        names = [param.name for param in params]
        option.expose_value = False
        option.callback = partial(_keep, field)
        params.insert(names.index(earlier.get(field.name, before)), option)


def _keep(field: "RequestField", context: typer.Context, option: object, value: Any) -> None:  # noqa: ARG001 - as Typer calls it
    context.meta.setdefault(_VALUES, {})[field.name] = field, value


def _options(fields: "list[RequestField]") -> list[Any]:
    """Return the options that Typer makes of parameters of a function."""

    def command() -> None: ...

    command.__signature__ = Signature([_parameter(field) for field in fields])  # type: ignore[attr-defined]
    commands = typer.Typer(add_completion=False, rich_markup_mode=None)
    commands.command()(command)
    return list(typer.main.get_command(commands).params)


def _parameter(field: "RequestField") -> Parameter:
    words, kind, default = field.words, _bare_type(field.type), field.default or None
    info = typer.Option(field.option, metavar=words.metavar or None, help=words.help, min=words.least)
    if kind is bool:
        return Parameter(field.name, Parameter.KEYWORD_ONLY, default=bool(default), annotation=Annotated[bool, info])
    kind = list[str] if get_origin(kind) is tuple else getattr(kind, "__supertype__", kind)
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind | None, info])


def _bare_type(kind: Any) -> Any:
    """Return the type of a field's values other than None."""
    return next((part for part in get_args(kind) if part is not NoneType), kind) if NoneType in get_args(kind) else kind


def _commit_id(repository: "AnyRepository", option: str, text: str) -> "CommitID":
    """Return the ID of the commit that an option names by its ID or the first digits of it. No request for a whole one. Names of
    branches and tags are refused, as they move with what they are to be compared with."""
    from graveler.history.commits import MIN_PREFIX_DIGITS, is_commit_id, is_hex
    from graveler.model import CommitID

    if is_commit_id(text):
        return CommitID(text)
    commit_id = repository.commit_of(text).id if is_hex(text) and len(text) >= MIN_PREFIX_DIGITS else ""
    if not commit_id or not commit_id.startswith(text):
        raise InvalidError(
            f"{option} takes the ID of a commit, or its first digits, as `graveler log` shows it, not {text!r}"
        )
    return CommitID(commit_id)
