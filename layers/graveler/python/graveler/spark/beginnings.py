"""When a transaction begins: once it is known in which lake it works.

A name says nothing of the lake, and neither does the thread: Spark has an "active session" for each thread, and for some none.
So the session decides that the caller names, else the one that is active where the block begins, else that of the first frame.
Frames of a session whose options name another lake are refused, since they would be written where nobody expects them.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from threading import Lock
from typing import Final, Generic, TypeVar

from pyspark.sql import SparkSession

from graveler.errors import InvalidError
from graveler.locations import ServedLake
from graveler.spark.connect import expect_jvm
from graveler.spark.handles import CONFIGURED, LakeLike, Reachable, Reached, configured_by, left_open, reached

T = TypeVar("T")


def deciding(
    spark: SparkSession | None, repository: Reachable, lake: LakeLike | ServedLake = None
) -> SparkSession | None:
    """The session that decides on the lake where no frame does: the given one, else the one that is active in this thread.
    :class:`InvalidError` if there is none, and nothing else names the lake: what the environment names may be another one."""
    found = spark or SparkSession.getActiveSession()
    if found is None and "lake" in left_open(repository, lake):
        raise InvalidError(
            "no Spark session is active in this thread, so nothing says in which lake the transaction is; give spark= or lake="
        )
    return found


def _expect_writer(spark: SparkSession | None) -> None:
    expect_jvm(spark, "a transaction", "run the job in the cluster, with a session of its own")


class Beginning(Generic[T]):
    """Begins a transaction, once. Safe to share between threads.

    ``begin`` gets the repository; its lake is closed with ``stack``.
    """

    def __init__(
        self,
        stack: ExitStack,
        repository: Reachable,
        lake: LakeLike | ServedLake,
        begin: Callable[[Reached], T],
    ) -> None:
        self._stack = stack
        self._repository = repository
        self._lake = lake
        self._begin = begin
        self._open: Final = left_open(repository, lake)
        self._lock = Lock()
        self._configured: Mapping[str, str | None] = {}
        self._begun: T | None = None

    @property
    def begun(self) -> T | None:
        """What ``begin`` made; None if no session has decided yet."""
        return self._begun

    def early(self, spark: SparkSession | None) -> None:
        """Begin before the block, if that is possible: the session is known, or the arguments name the lake by themselves."""
        _expect_writer(spark)
        if spark is not None or not self._open:
            self._by(spark)

    def by(self, spark: SparkSession) -> T:
        """What ``begin`` made, for work of this session. :class:`InvalidError` if its options name another lake than those of
        the session that decided. Errors of finding the lake, and of ``begin``."""
        return self._by(spark)

    def known(self) -> T:
        """The same for work that no session does. :class:`InvalidError` if no session has decided yet."""
        if self._begun is None:
            raise InvalidError(
                "no Spark session is active in this thread, so nothing says yet in which lake the transaction works; "
                "give transaction(…) its spark= or lake=, or write a frame first"
            )
        return self._begun

    def _by(self, spark: SparkSession | None) -> T:
        if spark is not None:
            _expect_writer(spark)
        with self._lock:
            configured = configured_by(spark, self._open)
            if self._begun is None:
                found = self._stack.enter_context(reached(spark, self._repository, self._lake))
                self._begun, self._configured = self._begin(found), configured
            elif spark is not None and configured != self._configured:
                name = next(name for name in self._open if configured[name] != self._configured[name])
                raise InvalidError(
                    f"the sessions of this transaction disagree on the lake: {CONFIGURED}{name} was "
                    f"{self._configured[name] or 'not set'} where it began, "
                    f"and is {configured[name] or 'not set'} in this frame's session. "
                    "Nothing was written; give transaction(…) the spark= or the lake= that is meant"
                )
            return self._begun
