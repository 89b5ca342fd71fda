"""graveler: Git for a data lake, without a server.

Branches that cost nothing, atomic commits, tags, diffs, merges and time travel over objects that stay where they are. ::

    import graveler

    with graveler.open("~/lake") as lake:
        branch = lake.repository("sales").branch("main")
        branch.object("a.txt").upload("hello")
        branch.commit("A greeting")

The rooms, from the top down: ``cli``, ``sdk`` and others (faces), ``lake`` (use cases), ``history``, ``staging``, ``tree``,
``storage``, and below them all the plain values (``model``) and the exception tree (``errors``). Importing this module imports
none of them: each name below is looked up on first use.

Public are the names that this module, :mod:`graveler.duckdb`, :mod:`graveler.filesystem`, :mod:`graveler.polars` and
:mod:`graveler.spark` export, with the public attributes of what they return, and the classes of :mod:`graveler.errors` and
:mod:`graveler.model`. Every other module is private: it may change in any release. The command line, the HTTP API and the stored
format have versions of their own (``CHANGELOG.md``).
"""

TYPE_CHECKING = (
    False  # type checkers take it for True by its name; importing ``typing`` would cost more than all else here
)
if TYPE_CHECKING:
    from graveler.errors import (
        AlreadyExistsError,
        BusyError,
        ConflictError,
        CorruptError,
        DirtyBranchError,
        EmptySourceError,
        ForbiddenError,
        GravelerError,
        InvalidError,
        MergeConflictError,
        NoChangesError,
        NotFoundError,
        ObjectChangedError,
        ObjectNotFoundError,
        PreconditionError,
        RefNotFoundError,
        RepositoryNotFoundError,
        RuleError,
        TransactionGoneError,
        UnavailableError,
        UnexpectedHeadError,
    )
    from graveler.files.reader import ObjectReader
    from graveler.files.writer import ObjectWriter
    from graveler.model import (
        Change,
        ChangeType,
        Commit,
        CommonPrefix,
        Conflict,
        MergePreview,
        MergeStrategies,
        MergeStrategy,
        ObjectEntry,
    )
    from graveler.sdk.branch import Branch
    from graveler.sdk.import_manager import ImportManager
    from graveler.sdk.lake import Lake
    from graveler.sdk.lake import create_lake as create
    from graveler.sdk.lake import open_lake as open  # noqa: A004 - as in gzip, bz2, tarfile
    from graveler.sdk.listing import Listing
    from graveler.sdk.reference import Reference
    from graveler.sdk.repository import Repository
    from graveler.sdk.stored import StoredObject, WriteableObject
    from graveler.sdk.tag import Tag
    from graveler.sdk.transaction import Transaction

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "Branch",
    "BusyError",
    "Change",
    "ChangeType",
    "Commit",
    "CommonPrefix",
    "Conflict",
    "ConflictError",
    "CorruptError",
    "DirtyBranchError",
    "EmptySourceError",
    "ForbiddenError",
    "GravelerError",
    "ImportManager",
    "InvalidError",
    "Lake",
    "Listing",
    "MergeConflictError",
    "MergePreview",
    "MergeStrategies",
    "MergeStrategy",
    "NoChangesError",
    "NotFoundError",
    "ObjectChangedError",
    "ObjectEntry",
    "ObjectNotFoundError",
    "ObjectReader",
    "ObjectWriter",
    "PreconditionError",
    "RefNotFoundError",
    "Reference",
    "Repository",
    "RepositoryNotFoundError",
    "RuleError",
    "StoredObject",
    "Tag",
    "Transaction",
    "TransactionGoneError",
    "UnavailableError",
    "UnexpectedHeadError",
    "WriteableObject",
    "create",
    "open",
]

_MODULES = {
    "Branch": "sdk.branch",
    "ImportManager": "sdk.import_manager",
    "Lake": "sdk.lake",
    "Listing": "sdk.listing",
    "ObjectReader": "files.reader",
    "ObjectWriter": "files.writer",
    "Reference": "sdk.reference",
    "Repository": "sdk.repository",
    "StoredObject": "sdk.stored",
    "Tag": "sdk.tag",
    "Transaction": "sdk.transaction",
    "WriteableObject": "sdk.stored",
    "create": "sdk.lake",
    "open": "sdk.lake",
}
"""The module that defines a name of the Python API; errors and plain values have one module each."""
_FUNCTIONS = {"open": "open_lake", "create": "create_lake"}
"""Functions with another name in their module."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'graveler' has no attribute {name!r}")
    module = _MODULES.get(name, "errors" if name.endswith("Error") else "model")
    from importlib import import_module

    try:
        attribute: object = getattr(import_module(f"graveler.{module}"), _FUNCTIONS.get(name, name))
    except ModuleNotFoundError as error:
        if error.name != "fcntl":
            raise
        from graveler.errors import UnavailableError
        from graveler.system.extras import ON_WINDOWS

        raise UnavailableError(ON_WINDOWS) from None
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
