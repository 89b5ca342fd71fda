"""Updates that tables and views share: location, properties, schemas; and the check of a commit's list of them."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final

from msgspec import Meta

from graveler.errors import InvalidError
from graveler.table_format.document_shapes import check_nesting, check_shape, require_document
from graveler.table_format.drafts import Draft
from graveler.table_format.plain_documents import Document
from graveler.table_format.schema_rules import check_schema, same_schema

MAX_UPDATES: Final = 100_000
"""Updates of one commit. Clients that expire snapshots name each in an update of its own."""

MAX_ADDED_PARTS: Final = 1_000
"""Updates of one commit that add a schema, a partition spec or a sort order: each is compared with all that exist."""

_ADDING: Final = frozenset(("add-schema", "add-spec", "add-sort-order", "add-view-version"))

MAX_ID: Final = 2**31 - 1
"""The greatest ID of a schema, a spec, a sort order, or a version."""

_Updates = Annotated[list[Any], Meta(max_length=MAX_UPDATES)]


def without_location(updates: Iterable[Document]) -> list[Document]:
    """Return updates without those that set a location."""
    return [update for update in updates if str(update.get("action")).lower() != "set-location"]


def set_location(draft: Draft, update: Document) -> None:
    """Set where the files of a table or a view lie."""
    draft.put("location", update["location"].rstrip("/") or update["location"])


def set_properties(draft: Draft, update: Document) -> None:
    """Set properties. Equal values are no change."""
    changes = update_items(update, "updates", "updated")
    if any(draft.fields["properties"].get(name) != value for name, value in changes.items()):
        draft.change_map("properties").update(changes)


def remove_properties(draft: Draft, update: Document) -> None:
    """Remove properties; names that do not exist are ignored."""
    present = draft.fields["properties"].keys() & set(update_items(update, "removals", "removed"))
    for name in present:
        del draft.change_map("properties")[name]


def update_items(update: Document, name: str, former_name: str) -> Document:
    """Return a field of an update by its name, or by the former name that old clients send. Raises
    :class:`~graveler.errors.InvalidError` without either."""
    items: Document | None = update.get(name)
    if items is None:
        items = update.get(former_name)
    if items is None:
        raise InvalidError(f"{update['action']} has no {name}; name the properties")
    return items


def add_equal_schema_once(draft: Draft, schema: Document, format_version: int) -> int:
    """Add a schema, unless an equal one exists, and return its ID.

    Raises :class:`~graveler.errors.InvalidError` for one that is not valid.
    """
    schemas = draft.fields["schemas"]
    schema_id: int | None = next((other["schema-id"] for other in schemas if same_schema(other, schema)), None)
    if schema_id is None:
        check_schema(schema, format_version, "schema")
        schema_id = next_id(schemas, "schema-id", 0)
        draft.change_list("schemas").append({**schema, "schema-id": schema_id})
    draft.last_added["schemas"] = schema_id
    return schema_id


def next_id(parts: Iterable[Document], name: str, initial: int) -> int:
    """Return the ID after the highest of some parts, at least the initial one.

    Raises :class:`~graveler.errors.InvalidError` if the highest is :data:`MAX_ID`.
    """
    part_id: int = max([initial, *(part[name] + 1 for part in parts)])
    if part_id > MAX_ID:
        raise InvalidError(f"no {name} is free: the highest is {MAX_ID}; remove that part first")
    return part_id


def read_updates(updates: object, actions: dict[str, tuple[type, Callable[[Any, Document], None]]]) -> list[Any]:
    """Return the function and the document of each update. Raises :class:`~graveler.errors.InvalidError` for one that has
    another shape than its action in ``actions`` says, or none of these actions."""
    items = check_shape(updates, _Updates, "updates")
    steps = []
    added_parts = 0
    for position, item in enumerate(items):
        update = require_document(item, f"update {position}")
        action = update.get("action")
        if not isinstance(action, str):
            raise InvalidError(f"Cannot parse metadata update. Missing field: action of update {position}; add it")
        if action.lower() not in actions:
            raise InvalidError(
                f"unknown update {action!r}: nothing was changed. This version of graveler knows {', '.join(sorted(actions))}"
            )
        shape, apply = actions[action.lower()]
        check_shape(update, shape, f"update {position} ({action})")
        check_nesting(update, f"update {position} ({action})")
        steps.append((apply, update))
        added_parts += action.lower() in _ADDING
    if added_parts > MAX_ADDED_PARTS:
        raise InvalidError(
            f"updates add {added_parts:,} schemas, specs, sort orders or versions, but at most {MAX_ADDED_PARTS:,} at once; "
            f"commit them in parts"
        )
    return steps


def number_property(properties: Document, name: str, default: int) -> int:
    """Return a property that is a number; raises :class:`~graveler.errors.InvalidError` if it is none."""
    text = properties.get(name, str(default))
    try:
        return int(text)
    except ValueError as error:
        raise InvalidError(f"property {name} is {text!r}, but must be a number; set or remove it") from error
