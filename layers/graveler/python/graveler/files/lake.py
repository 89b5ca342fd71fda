"""A lake, and the user who changes it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

from graveler.files.shared_lake import Address, SharedLake, address_of, opened_at
from graveler.location.environment import Named, find_lake, user_name

if TYPE_CHECKING:
    from typing import Unpack

    from graveler.remote.any_repository import AnyLake

H = TypeVar("H", bound="LakeHandle")


class LakeHandle:
    """A lake that other processes can open again by its ``address``, and the ``user`` who signs changes and commits. The base of
    :class:`graveler.sdk.lake.Lake`."""

    def __init__(self, verbs: "AnyLake", user: str = "", address: Address | None = None) -> None:
        self._shared = SharedLake(verbs, address)
        self.user = user

    @property
    def verbs(self) -> "AnyLake":
        """The layer below, for operations that have no method here."""
        return self._shared.lake

    def __repr__(self) -> str:
        return f"Lake({self._shared!r}, user={self.user!r})"

    def close(self) -> None:
        """Release files and connections."""
        self._shared.close()


class LakeOptions(TypedDict, total=False):
    """The keyword arguments of :func:`graveler.open`."""

    user: str | None
    objects: str | None
    region: str | None
    s3_endpoint_url: str | None
    dynamodb_endpoint_url: str | None
    login: Literal["aws"] | None
    profile: str | None


def named_lake(location: str | Path | None, options: LakeOptions) -> Named:
    """Return a lake's location as :func:`graveler.open` takes it; ``~`` in a folder is the home folder."""
    place = None if location is None else str(location)
    if location is not None and "://" not in str(location):
        place = str(Path(location).expanduser())  # TypeError for what is no location
    return Named(
        lake=place,
        objects=options.get("objects"),
        region=options.get("region"),
        s3_endpoint_url=options.get("s3_endpoint_url"),
        dynamodb_endpoint_url=options.get("dynamodb_endpoint_url"),
        login=options.get("login"),
        profile=options.get("profile"),
    )


def open_handle(
    kind: "Callable[[AnyLake, str, Address | None], H]", location: str | Path | None, **options: "Unpack[LakeOptions]"
) -> H:
    """Open a lake, and return a handle of a ``kind``. Arguments, cost and errors as of :func:`graveler.open`."""
    user, profile = options.get("user"), options.get("profile")
    place = find_lake(named_lake(location, options))
    lake = opened_at(place, stacklevel=5)
    return kind(lake, user_name(profile) if user is None else user, address_of(place))


def shared_lake_of(handle: LakeHandle) -> SharedLake:
    """Return the lake of a handle, to share it with other handles."""
    return handle._shared
