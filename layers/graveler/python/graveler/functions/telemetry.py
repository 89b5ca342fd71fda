"""A function's telemetry: lines of JSON in its log, figures (EMF) in them.

The figures have one dimension, the function. Operation, repository and request stand beside them as properties, which Logs
Insights can query: as dimensions, each of their values would be billed as a metric of its own.
"""

import logging
import os
import sys
from typing import Any, Final

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit

from graveler.functions.traffic import Counts

_ROOT: Final = "graveler"


class Telemetry:
    """Logger and figures of one function. Its log takes the lines of all rooms, the audit log among them. ``shares``: functions
    share a cache, which has a figure too (each is billed)."""

    def __init__(self, verb: str, *, shares: bool = False) -> None:
        self._shares = shares
        self.logger = Logger(service=verb)
        # Per deployment: several of them in one account keep their figures apart.
        namespace = os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or _ROOT
        self._metrics = Metrics(namespace=namespace, service=verb)
        self._cold = True
        library = logging.getLogger(_ROOT)
        library.handlers = [self.logger.registered_handler]
        library.setLevel(logging.INFO)
        library.propagate = False  # Lambda's own handler would write each line a second time
        audit = logging.getLogger(f"{_ROOT}.audit")
        plain = logging.StreamHandler(sys.stdout)
        plain.setFormatter(logging.Formatter("%(message)s"))  # its lines are JSON already
        audit.handlers = [plain]
        audit.propagate = False

    def begin(self, correlation_id: str) -> None:
        """Add this ID to all lines from now on."""
        self.logger.set_correlation_id(correlation_id)

    def tell(self, counts: Counts, ms: float, properties: dict[str, Any]) -> None:
        """Write one event's figures: its requests, and the milliseconds that it took."""
        metrics = self._metrics
        count = MetricUnit.Count
        metrics.add_metric(name="ObjectRequests", unit=count, value=counts.objects)
        metrics.add_metric(name="TableRequests", unit=count, value=counts.tables)
        metrics.add_metric(name="Retries", unit=count, value=counts.retries)
        metrics.add_metric(name="MemoryHits", unit=count, value=counts.in_memory)
        metrics.add_metric(name="ScratchHits", unit=count, value=counts.in_scratch)
        if self._shares:
            metrics.add_metric(name="SharedHits", unit=count, value=counts.shared)
        metrics.add_metric(name="CacheMisses", unit=count, value=counts.missed)
        if counts.cache_failures:  # it is billed only in the hours in which it is reported
            metrics.add_metric(name="CacheFailures", unit=count, value=counts.cache_failures)
        metrics.add_metric(name="ColdStarts", unit=count, value=int(self._cold))
        metrics.add_metric(name="Time", unit=MetricUnit.Milliseconds, value=round(ms, 3))
        for name, value in properties.items():
            if value:
                metrics.add_metadata(key=name, value=value)
        metrics.flush_metrics()
        self._cold = False
