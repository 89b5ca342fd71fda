"""What EMR Serverless runs Spark jobs on: its releases, and the sizes that an account's quota leaves to a job."""

from collections.abc import Mapping
from datetime import date
from typing import Final, NamedTuple


class Release(NamedTuple):
    """A release of EMR: the Spark in it, and the day after which AWS neither mends nor supports it."""

    spark: str
    end_of_life: date


TESTED_RELEASE: Final = "emr-spark-8.0.0"
"""The one whose Spark ``make test`` runs: ``EMR_SPARK`` in the Makefile."""

RELEASES: Final[Mapping[str, Release]] = {
    "emr-spark-8.0.0": Release("4.0.2", date(2027, 5, 20)),
    "emr-spark-8.1.0": Release("4.1.1", date(2029, 9, 8)),
}
"""The releases that jobs are known to run on. Jobs read and write with classes of Spark that have no public interface, so others
are refused until the tests have passed on their Spark. Dates and versions:
https://docs.aws.amazon.com/emr/latest/ReleaseGuide/emr-spark800-release.html and
https://docs.aws.amazon.com/emr/latest/ReleaseGuide/emr-spark810-release.html"""

DEFAULT_QUOTA: Final = 16
"""Virtual processors that EMR Serverless gives to a new account in a region ("Max concurrent vCPUs per account"):
https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html. Beyond it, a job fails while it asks for
executors."""

DRIVER_CPUS: Final = 4
DRIVER_MEMORY: Final = 14
"""GB of heap. Both are EMR's defaults, said here because the driver counts, too:
https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/jobs-spark.html"""

GB_PER_CPU: Final = 8
"""Of memory: the most of any size of workers, but for those of 4 and 8 virtual processors, which have a little less."""
_DISK_PER_CPU: Final = 50

QUEUE_MINUTES: Final = 60
"""How long a job waits for those before it:
https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_SchedulerConfiguration.html"""


def executors_of_a_job(cpus: int, jobs_at_once: int, executor_cpus: int) -> int:
    """Return how many executors a job can have beside its driver, if ``jobs_at_once`` jobs share ``cpus`` virtual processors."""
    return (cpus // jobs_at_once - DRIVER_CPUS) // executor_cpus


def allocation(cpus: int, jobs_at_once: int, executor_cpus: int) -> dict[str, str]:
    """Return the settings of Spark that keep a job within its share: the size of its driver, and at most so many executors. EMR
    begins with three executors, and knows no limit by default:
    https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/jobs-spark.html"""
    most = executors_of_a_job(cpus, jobs_at_once, executor_cpus)
    return {
        "spark.driver.cores": str(DRIVER_CPUS),
        "spark.driver.memory": f"{DRIVER_MEMORY}g",
        "spark.dynamicAllocation.initialExecutors": str(min(3, most)),
        "spark.dynamicAllocation.maxExecutors": str(most),
    }


def disk(cpus: int, executor_cpus: int, executor_disk: int) -> int:
    """Return the GB of disk that ``cpus`` virtual processors may have together: as much as the executors on them ask for. A job
    gets no executor beyond it."""
    return cpus * max(_DISK_PER_CPU, -(-executor_disk // executor_cpus))
