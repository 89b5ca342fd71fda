"""Statuses: none is lost or posted twice, and nobody's verdict is replaced."""

from typing import Final

from graveler.lake.lake import Lake
from graveler.model import StatusState
from tests.lake.faults.case import Case
from tests.lake.faults.model import Model
from tests.lake.faults.scenes import Scene, client
from tests.lake.support import NAME


def fail(lake: Lake, _: Scene, __: Model) -> None:
    for name in ("bob", "eve"):
        lake.repository(NAME).post_status("main", "dbt", StatusState.FAILURE, by=name)


def posted_once(scene: Scene, _: Model, repeated: bool) -> None:
    statuses = client(scene).repository(NAME).statuses("main")
    assert [status.state for status in statuses if status.by == "eve"] == [StatusState.FAILURE]
    of_bob = [status.state for status in statuses if status.by == "bob"]
    assert of_bob in ([[StatusState.SUCCESS]] if repeated else [[StatusState.SUCCESS], [StatusState.FAILURE]])


CASES: Final[tuple[Case, ...]] = (
    Case(
        "post a status",
        lambda lake, _: lake.repository(NAME).post_status("main", "dbt", StatusState.SUCCESS, by="bob", expires=3600),
        prepare=fail,
        verify=posted_once,
    ),
)
