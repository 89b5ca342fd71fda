"""The types of a lake and a repository, in this process or behind a server. For annotations of code that works on either; type
checkers ensure that both have each verb that is used."""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from graveler.lake.lake import Lake
    from graveler.lake.repository import OpenRepository
    from graveler.remote.lake import RemoteLake
    from graveler.remote.repository import RemoteRepository

AnyRepository: TypeAlias = "OpenRepository | RemoteRepository"
AnyLake: TypeAlias = "Lake | RemoteLake"
