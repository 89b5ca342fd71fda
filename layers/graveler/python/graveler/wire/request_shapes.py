"""The places of a request's fields in its HTTP operation: in the path, the query and the JSON document, in both directions.

A field has the same name and type there, unless its :class:`~graveler.requests.base.Field` names it otherwise; optional fields
may be null or missing. The information of a commit, merge strategies and split parameters have shapes of their own.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import asdict

from graveler.model import Application, MergeStrategies, MergeStrategy, SplitParameters
from graveler.requests.base import CommitInfo, Endpoint, Request
from graveler.requests.fields import RequestField, fields_of
from graveler.wire import refs
from graveler.wire.refs import ApplicationVersion, CommitOverrides, IsolationName, PrefixStrategy, StrategyName

R = TypeVar("R", bound=Request[Any])

_PATH_PARAMETER: Final = re.compile(r"{(\w+)}")

_INFO: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {"message": str | None, "metadata": dict[str, str] | None},
    "dated": {"message": str | None, "metadata": dict[str, str] | None, "date": int | None},
    "overrides": {"commit_overrides": CommitOverrides | None},
}
"""The fields of a commit's information in documents, by the shape that an endpoint names."""

_DOCUMENTS: Final[Mapping[Any, Any]] = {Application | None: ApplicationVersion | None}
"""Types whose document is another type with the same fields."""


def strategy_document(strategies: MergeStrategies) -> dict[str, Any]:
    """Return the fields of a document for merge strategies."""
    by_prefix = [PrefixStrategy(prefix, strategy.value) for prefix, strategy in strategies.by_prefix]
    isolation = strategies.isolation or None
    return {"strategy": strategies.default.value, "strategies": by_prefix or None, "isolation": isolation}


def strategies_of(document: Any) -> MergeStrategies:
    """Return the merge strategies in the fields of a document."""
    by_prefix = tuple((rule.prefix, MergeStrategy(rule.strategy)) for rule in document.strategies or ())
    return MergeStrategies(MergeStrategy(document.strategy or ""), by_prefix, document.isolation or UNSET)


class _Shape(Struct, frozen=True):
    """Another form of a value in a document: its fields there, their values, and the value that a document gives."""

    fields: Mapping[str, Any]
    write: Callable[[Any], Mapping[str, Any]]
    read: Callable[[Any], Any]


_STRATEGY_FIELDS: Final[Mapping[str, Any]] = {
    "strategy": StrategyName | None,
    "strategies": list[PrefixStrategy] | None,
    "isolation": IsolationName | None,
}

_SHAPES: Final[Mapping[Any, _Shape]] = {
    MergeStrategies: _Shape(_STRATEGY_FIELDS, strategy_document, strategies_of),
    MergeStrategies | None: _Shape(
        _STRATEGY_FIELDS,
        lambda strategies: {} if strategies is None else strategy_document(strategies),
        lambda document: (
            strategies_of(document) if any(getattr(document, name) is not None for name in _STRATEGY_FIELDS) else None
        ),
    ),
    SplitParameters: _Shape(
        dict.fromkeys(("min_size", "max_size", "raggedness"), int),
        asdict,
        lambda document: SplitParameters(document.min_size, document.max_size, document.raggedness),
    ),
}


class RequestShape(Generic[R]):
    """The places of the fields of one kind of request. ``path``, ``query`` and ``plain`` (the document) have the fields that
    stand there by their names in the API, ``shaped`` those whose value has another form in the document."""

    def __init__(self, kind: type[R], endpoint: Endpoint) -> None:
        self.kind = kind
        self.endpoint = endpoint
        in_path = _PATH_PARAMETER.findall(endpoint.template)
        fields = fields_of(kind)
        named = {field.wire: field for field in fields.values()}
        self.path: dict[str, RequestField] = {name: named[name] for name in in_path if name in named}
        self.query: dict[str, RequestField] = {}
        self.plain: dict[str, RequestField] = {}
        self.shaped: dict[str, _Shape] = {}
        self.has_info = "info" in fields
        for name, field in fields.items():
            if name in ("info", "request_id") or field.wire in self.path:
                continue
            if name in endpoint.query or not endpoint.body:
                self.query[field.wire] = field
            elif field.type in _SHAPES:
                self.shaped[name] = _SHAPES[field.type]
            else:
                self.plain[field.wire] = field

    @cached_property
    def body(self) -> type[Struct] | None:
        """The type of the document, if the operation has one."""
        if not self.endpoint.body:
            return None
        types: dict[str, Any] = {}
        needed = set(self.endpoint.needed)
        for name, field in fields_of(self.kind).items():
            if name == "info":
                types |= _INFO[self.endpoint.info]
            elif name in self.shaped:
                types |= self.shaped[name].fields
                needed |= self.shaped[name].fields.keys() if field.is_required else set()
            elif self.plain.get(field.wire) is field:
                types[field.wire] = _DOCUMENTS.get(field.type, field.type)
                needed |= {field.wire} if field.is_required else set()
        fields = [
            (name, _without_none(type_) if name in self.endpoint.needed else type_)
            if name in needed
            else (name, type_ | None, None)
            for name, type_ in types.items()
        ]
        return msgspec.defstruct(
            self.endpoint.body,
            fields,
            namespace={"__doc__": self.endpoint.meaning.strip()},
            module=refs.__name__,  # the OpenAPI document names types by it that share a name
            frozen=True,
            kw_only=True,
        )

    def path_of(self, request: R) -> dict[str, str]:
        """Return the parameters of the path for a request, but for the repository."""
        return {name: getattr(request, field.name) for name, field in self.path.items()}

    def query_of(self, request: R) -> dict[str, Any]:
        """Return the parameters of the query for a request."""
        return {name: getattr(request, field.name) for name, field in self.query.items()}

    def document_of(self, request: R) -> dict[str, Any] | None:
        """Return the document that asks for a request, if the operation has one."""
        if not self.endpoint.body:
            return None
        document: dict[str, Any] = {}
        for name, field in fields_of(self.kind).items():
            if name == "info":
                document |= self._info_document(request.info)  # type: ignore[attr-defined]
            elif name in self.shaped:
                document |= self.shaped[name].write(getattr(request, name))
            elif self.plain.get(field.wire) is field:
                value = getattr(request, name)
                document[field.wire] = None if value == "" == field.default else value
        return document

    def request_of(
        self,
        parameters: Mapping[str, str],
        query: Struct | None,
        document: Any,
        author: str,
        may_force: Callable[[bool], bool],
    ) -> R:
        """Return the request that a client asks for. Null or missing fields have the request's defaults. ``author`` is the author
        of its commit; ``may_force`` decides whether ``force`` counts."""
        values: dict[str, Any] = {}
        for name, field in self.path.items():
            values[field.name] = parameters[name]
        for name, field in self.query.items():
            value = getattr(query, name)
            values[field.name] = field.default if value == "" and field.default is not NODEFAULT else value
        for name, field in self.plain.items():
            value = getattr(document, name)
            if value is not None or field.default is NODEFAULT:
                convert = field.type in _DOCUMENTS
                values[field.name] = msgspec.convert(value, field.type, from_attributes=True) if convert else value
        for name, shape in self.shaped.items():
            values[name] = shape.read(document)
        if self.has_info:
            values["info"] = self._info(document, author)
        if values.get("force"):
            values["force"] = may_force(True)
        return self.kind(**values)

    def _info_document(self, info: CommitInfo) -> dict[str, Any]:
        if self.endpoint.info == "overrides":
            return {"commit_overrides": CommitOverrides(info.message or None, dict(info.metadata) or None)}
        document: dict[str, Any] = {"message": info.message, "metadata": info.metadata}
        return document | {"date": info.created} if self.endpoint.info == "dated" else document

    def _info(self, document: Any, author: str) -> CommitInfo:
        is_dated = self.endpoint.info == "dated"
        words = (document.commit_overrides or CommitOverrides()) if self.endpoint.info == "overrides" else document
        return CommitInfo(words.message or "", author, words.metadata or {}, document.date if is_dated else None)


def _without_none(type_: Any) -> Any:
    """Return an optional type without None."""
    (bare,) = {*getattr(type_, "__args__", (type_,))} - {type(None)}
    return bare


@cache
def shape_of(kind: type[R]) -> RequestShape[R]:
    """Return the places of the fields of a kind of request, which has an endpoint."""
    assert kind.endpoint is not None, kind
    return RequestShape(kind, kind.endpoint)
