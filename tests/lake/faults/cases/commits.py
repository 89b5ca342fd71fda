"""Commits and imports."""

from hashlib import md5
from typing import Final

from graveler.errors import NoChangesError
from graveler.lake.committing.sealing import MAX_SEALED
from graveler.lake.lake import Lake
from graveler.operations.parts.commit_work import HANDOVER
from graveler.requests.importing import AddressType, ImportAddress, ListingOptions
from graveler.staging.cleanup import LONGEST_REQUEST
from tests.lake.faults.case import Case
from tests.lake.faults.cases.in_parts import in_parts
from tests.lake.faults.model import Model
from tests.lake.faults.scenes import Scene, client
from tests.lake.faults.story import die_committing, fail_committing, main_of, stage
from tests.lake.support import NAME
from tests.support.pinned import pinned_commit


def clean_up_is_due(lake: Lake, scene: Scene, model: Model) -> None:
    scene.clock.time += LONGEST_REQUEST + 10
    stage(lake, scene, model)


def requests_have_it(scene: Scene, model: Model, _: bool) -> None:
    """What had failed is in the one commit, which is what the requests have made if they are repeated."""
    if "mine" in main_of(model).said:
        repository = client(scene).repository(NAME)
        for number in (0, MAX_SEALED - 1):
            assert repository.commit("main", "again", request_id=f"failed {number}").message == "mine"


def commit_ready(lake: Lake, _: Scene) -> object:
    repository = lake.repository(NAME)
    metarange = repository.commit_of("v1").metarange
    return repository.commit_metarange("main", metarange, "ready", request_id="r")


def taken_over(model: Model) -> None:
    main = main_of(model)
    main.commit("ready")
    main.committed = dict(model[NAME].tags["v1"])


def import_folder(lake: Lake, scene: Scene) -> object:
    folder = scene.outside / "source"
    folder.mkdir(exist_ok=True)
    (folder / "i").write_text("3")
    (folder / "x").write_text("4")
    return lake.repository(NAME).import_folder("main", folder, "p/", message="import", request_id="r")


def import_listing(lake: Lake, scene: Scene) -> object:
    """Of objects whose addresses and times are the same wherever and whenever it runs."""
    folder = scene.outside
    folder.mkdir(exist_ok=True)
    (folder / "listing.csv").write_text(
        "".join(f"{path},1,{md5(text.encode()).hexdigest()},1700000000\n" for path, text in (("i", "3"), ("x", "4")))
    )
    options = ListingOptions(
        destination="p/", base="s3://elsewhere/", columns=("Key", "Size", "ETag", "LastModifiedDate")
    )
    return lake.repository(NAME).import_listing(
        "main", folder / "listing.csv", options, message="import", request_id="r"
    )


def import_addresses(lake: Lake, scene: Scene) -> object:
    folder = scene.outside / "source"
    folder.mkdir(exist_ok=True)
    (folder / "i").write_text("3")
    address = ImportAddress(AddressType.OBJECT, f"file://{folder.absolute()}/i", "b")
    return lake.repository(NAME).import_addresses("main", [address], message="import", request_id="r")


CASES: Final[tuple[Case, ...]] = (
    Case(
        "commit",
        lambda lake, _: lake.repository(NAME).commit("main", "mine"),
        lambda model: main_of(model).commit("mine"),
        stage,
        again=(NoChangesError,),
    ),
    Case(
        "commit with a request id",
        lambda lake, _: lake.repository(NAME).commit("main", "mine", request_id="r"),
        lambda model: main_of(model).commit("mine"),
        stage,
    ),
    Case(
        "commit in parts",
        lambda lake, _: in_parts(lake, lambda _: pinned_commit(branch="main", message="mine")),
        lambda model: main_of(model).commit("mine"),
        stage,
        lease=HANDOVER,
    ),
    Case(
        "commit after a commit that died",
        lambda lake, _: lake.repository(NAME).commit("main", "mine", request_id="r"),
        lambda model: main_of(model).commit("mine"),
        die_committing,
    ),
    Case(
        "commit after as many that failed as may be sealed",
        lambda lake, _: lake.repository(NAME).commit("main", "mine", request_id="r"),
        lambda model: main_of(model).commit("mine"),
        fail_committing,
        verify=requests_have_it,
    ),
    Case(
        "commit that cleans up",
        lambda lake, _: lake.repository(NAME).commit("main", "mine", request_id="r"),
        lambda model: main_of(model).commit("mine"),
        clean_up_is_due,
    ),
    Case(
        "empty commit",
        lambda lake, _: lake.repository(NAME).commit("main", "mine", request_id="r", allow_empty=True),
        lambda model: main_of(model).commit("mine"),
    ),
    Case("commit of a metarange that lies ready", commit_ready, taken_over),
    Case(
        "import",
        import_folder,
        lambda model: main_of(model).commit("import", {"p/i": "3", "p/x": "4", "p/y": None}),
    ),
    Case(
        "import of a listing",
        import_listing,
        lambda model: main_of(model).commit("import", {"p/i": "3", "p/x": "4", "p/y": None}),
        like="import",
    ),
    Case(
        "import of an address",
        import_addresses,
        lambda model: main_of(model).commit("import", {"b": "3"}),
        like="import",
    ),
)
