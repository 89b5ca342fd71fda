"""The start of a transaction: as soon as its lake is known.

A repository's name does not identify the lake, and neither does the thread: Spark has an "active session" for each thread, and
for some none. So the lake comes from the session that the caller names, else from the one that is active where the block begins,
else from that of the first frame. Frames of a session whose options name another lake are refused, since they would be written to
an unexpected place.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from threading import Lock
from typing import Final, Generic, TypeVar

from pyspark.sql import SparkSession

from graveler.errors import InvalidError
from graveler.location.environment import ServedLake
from graveler.spark.connect import expect_jvm
from graveler.spark.handles import CONFIGURED, LakeLike, Reachable, Reached, configured_by, left_open, reached

T = TypeVar("T")


def choose_session(
    spark: SparkSession | None, repository: Reachable, lake: LakeLike | ServedLake = None
) -> SparkSession | None:
    """Return the session that determines the lake if no frame does: the given one, else the active one of this thread.
    :class:`InvalidError` if none is active and nothing else names the lake: the environment's may be another one."""
    session = spark or SparkSession.getActiveSession()
    if session is None and "lake" in left_open(repository, lake):
        raise InvalidError(
            "no Spark session is active in this thread, so the transaction's lake is unknown; give spark= or lake="
        )
    return session


def _expect_writer(spark: SparkSession | None) -> None:
    expect_jvm(spark, "a transaction", "run the job in the cluster, with a session of its own")


class Beginning(Generic[T]):
    """The start of a transaction, performed once. Safe to share between threads.

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
        """The result of ``begin``; None if no session has determined the lake yet."""
        return self._begun

    def early(self, spark: SparkSession | None) -> None:
        """Begin before the block, if possible: the session is known, or the arguments alone name the lake."""
        _expect_writer(spark)
        if spark is not None or not self._open:
            self.by(spark)

    def known(self) -> T:
        """Return the result of ``begin`` for work outside any session. :class:`InvalidError` if no session has determined the
        lake yet."""
        if self._begun is None:
            raise InvalidError(
                "no Spark session is active in this thread, so the transaction's lake is not known yet; "
                "give transaction(…) its spark= or lake=, or write a frame first"
            )
        return self._begun

    def by(self, spark: SparkSession | None) -> T:
        """Return the result of ``begin``, for work of this session. :class:`InvalidError` if its options name another lake than
        those of the session that determined it. Errors of finding the lake, and of ``begin``."""
        if spark is not None:
            _expect_writer(spark)
        with self._lock:
            configured = configured_by(spark, self._open)
            if self._begun is None:
                repository = self._stack.enter_context(reached(spark, self._repository, self._lake))
                self._begun, self._configured = self._begin(repository), configured
            elif spark is not None and configured != self._configured:
                name = next(name for name in self._open if configured[name] != self._configured[name])
                raise InvalidError(
                    f"the sessions of this transaction disagree about the lake: {CONFIGURED}{name} was "
                    f"{self._configured[name] or 'not set'} where it started, "
                    f"and is {configured[name] or 'not set'} in this frame's session. "
                    "Nothing was written; give transaction(…) the right spark= or lake="
                )
            return self._begun
