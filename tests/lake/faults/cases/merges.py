"""What brings commits of other refs: merges, reverts, cherry-picks."""

from typing import Final

from graveler.errors import NoChangesError
from graveler.model import MergeStrategy
from tests.lake.faults.case import Case
from tests.lake.faults.cases.in_parts import in_parts
from tests.lake.faults.story import main_of, merged, nothings
from tests.lake.support import NAME
from tests.support.pinned import pinned_merge

CASES: Final[tuple[Case, ...]] = (
    Case(
        "merge",
        lambda lake, _: lake.repository(NAME).merge("side", "main", message="merge"),
        lambda model: merged(model, "merge"),
        again=(NoChangesError,),
    ),
    Case(
        "merge with a request id",
        lambda lake, _: lake.repository(NAME).merge("side", "main", message="merge", request_id="r"),
        lambda model: merged(model, "merge"),
    ),
    Case(
        "merge over what is staged and changes nothing",
        lambda lake, _: lake.repository(NAME).merge("side", "main", message="merge", request_id="r"),
        lambda model: merged(model, "merge"),
        nothings,
    ),
    Case(
        "merge in parts",
        lambda lake, _: in_parts(
            lake,
            lambda repository: pinned_merge(
                source="side", source_id=repository.commit_of("side").id, destination="main", message="merge"
            ),
        ),
        lambda model: merged(model, "merge"),
    ),
    Case(
        "squash merge",
        lambda lake, _: lake.repository(NAME).merge(
            "side", "main", message="squash", squash=True, strategy=MergeStrategy.SOURCE_WINS, request_id="r"
        ),
        lambda model: merged(model, "squash"),
    ),
    Case(
        "revert",
        lambda lake, _: lake.repository(NAME).revert("main", "main", message="revert", request_id="r"),
        lambda model: main_of(model).commit("revert", {"b": "1"}),
    ),
    Case(
        "cherry-pick",
        lambda lake, _: lake.repository(NAME).cherry_pick("main", "side", message="pick", request_id="r"),
        lambda model: merged(model, "pick"),
    ),
)
