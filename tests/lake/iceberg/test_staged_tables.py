"""Claims to tables whose creation is staged."""

import pytest

from graveler.errors import ForbiddenError
from graveler.lake.iceberg.staged_tables import Staging, claim_to, claimed_table
from graveler.lake.iceberg.table_creation import staged_table
from graveler.requests.iceberg import Identifier
from tests.lake.iceberg.support import SCHEMA
from tests.lake.support import StoredWorld

TABLE = Identifier(("shop",), "new")
STAGING = Staging("main", TABLE, ("key", "Ann"))


def staged(world: StoredWorld) -> tuple[str, str]:
    """The UUID of a table that is staged, and the claim to it."""
    uuid = staged_table(world.main.parts, "main", TABLE, {"schema": SCHEMA})["table-uuid"]
    return uuid, claim_to(world.main.parts, STAGING, uuid)


def test_a_claim_is_as_old_as_files_of_a_commit_at_most(world: StoredWorld) -> None:
    uuid, claim = staged(world)
    parts = world.main.parts
    world.clock.time += parts.table_grace / 2 - 1
    proven = claimed_table(parts, STAGING, claim)
    assert proven is not None
    assert (proven[0], proven[1].key) == (uuid, parts.names.table_folder(uuid))
    world.clock.time += 2
    with pytest.raises(ForbiddenError, match="staged more than 84 hours ago"):
        claimed_table(parts, STAGING, claim)


@pytest.mark.parametrize("claim", ["", ".", "..", "1.2.3", "a.b.c", "1.2.3.4", "nan..", "ü.\0.1", "9" * 5000])
def test_any_other_text_claims_nothing(world: StoredWorld, claim: str) -> None:
    with pytest.raises(ForbiddenError, match="was not staged for this caller on 'main'"):
        claimed_table(world.main.parts, STAGING, claim)


@pytest.mark.parametrize(
    "staging",
    [
        Staging("dev", TABLE, STAGING.caller),
        Staging("main", Identifier(("shop", "new"), "new"), STAGING.caller),
        Staging("main", Identifier((), "shop"), ("new", *STAGING.caller)),
        Staging("main", TABLE, ("key", "Bob")),
        Staging("main", TABLE, ("keyAnn",)),
    ],
)
def test_a_claim_is_to_one_name_on_one_branch_for_one_caller(world: StoredWorld, staging: Staging) -> None:
    _, claim = staged(world)
    with pytest.raises(ForbiddenError):
        claimed_table(world.main.parts, staging, claim)


def test_a_claim_holds_in_its_repository_alone(world: StoredWorld) -> None:
    _, claim = staged(world)
    other = world.lake().create_repository("other", "mem://other")
    with pytest.raises(ForbiddenError):
        claimed_table(other.parts, STAGING, claim)
