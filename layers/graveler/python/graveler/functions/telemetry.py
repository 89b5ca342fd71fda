"""What a function tells of itself: lines of JSON in its log, figures (EMF) in them.

The figures have one dimension, the function. Operation, repository and request stand beside them as properties, which Logs
Insights can ask for: as dimensions each of their values would be paid for as a metric of its own.
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
    """Logger and figures of one function. Its log takes the lines of all rooms, the audit log among them. ``shares``: there is a
    cache that functions share, which has a figure too (each is paid for)."""

    def __init__(self, verb: str, *, shares: bool = False) -> None:
        self._shares = shares
        self.logger = Logger(service=verb)
        # Of the deployment: several of them in one account tell their figures apart.
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
        """From now on all lines carry this ID."""
        self.logger.set_correlation_id(correlation_id)

    def tell(self, counts: Counts, ms: float, properties: dict[str, Any]) -> None:
        """Write down one event's figures: its requests, and the milliseconds that it took."""
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
        if counts.cache_failures:  # it is paid for in the hours only in which it is told
            metrics.add_metric(name="CacheFailures", unit=count, value=counts.cache_failures)
        metrics.add_metric(name="ColdStarts", unit=count, value=int(self._cold))
        metrics.add_metric(name="Time", unit=MetricUnit.Milliseconds, value=round(ms, 3))
        for name, value in properties.items():
            if value:
                metrics.add_metadata(key=name, value=value)
        metrics.flush_metrics()
        self._cold = False
