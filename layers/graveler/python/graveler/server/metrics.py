"""Metrics for Prometheus: requests by operation and status, and their duration.

Each worker counts for itself and writes its counts to its own file within a second; the worker that is scraped adds all files up.
So every worker responds with the same figures, and those of a worker that died are kept.
"""

import os
from bisect import bisect_left
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final

import msgspec

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram, in seconds."""

_WRITE_EVERY: Final = 1.0


class _Counts(msgspec.Struct):
    requests: dict[str, int] = {}
    """By ``operation status``."""
    buckets: dict[str, list[int]] = {}
    """By operation; the last bucket is for durations beyond all bounds."""
    seconds: dict[str, float] = {}
    worker_deaths: int = 0


class Metrics:
    """The metrics of one worker, and those of all in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / f"{os.getpid()}.json"
        self._lock = Lock()
        self._counts = _Counts()
        self._changed = False
        self._stopping = Event()
        self._writer = Thread(target=self._write_often, name="metrics", daemon=True)
        self._writer.start()

    def note(self, operation: str, status: int, seconds: float) -> None:
        """Count one request."""
        bucket = bisect_left(BUCKETS, seconds)
        name = operation or "other"
        key = f"{name} {status}"
        counts = self._counts
        with self._lock:
            if key not in counts.requests:
                counts.requests[key] = 0
                counts.buckets.setdefault(name, [0] * (len(BUCKETS) + 1))
                counts.seconds.setdefault(name, 0.0)
            counts.requests[key] += 1
            counts.buckets[name][bucket] += 1
            counts.seconds[name] += seconds
            self._changed = True

    def text(self) -> str:
        """Return all workers' metrics in Prometheus' text format. Cost: one small file read per worker."""
        self._write()
        total = _Counts({}, {}, {})
        for file in sorted(self._folder.glob("*.json")):
            _add(total, msgspec.json.decode(file.read_bytes(), type=_Counts))
        return _rendered(total)

    def close(self) -> None:
        """Write the final figures."""
        self._stopping.set()
        self._writer.join()
        self._write()

    def _write_often(self) -> None:
        while not self._stopping.wait(_WRITE_EVERY):
            self._write()

    def _write(self) -> None:
        with self._lock:
            if not self._changed:
                return
            data = msgspec.json.encode(self._counts)
            self._changed = False
            temporary = self._file.with_suffix(".writing")
            try:
                temporary.write_bytes(data)
                temporary.rename(self._file)
            except FileNotFoundError:  # the server is shutting down, and its folder is gone
                return


class WorkerDeaths:
    """The count of workers that ended unexpectedly, kept by the process that starts them, beside the files of the workers."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "deaths.json"
        self._counts = _Counts()

    def note(self) -> None:
        """Count one. One small file write."""
        self._counts.worker_deaths += 1
        temporary = self._file.with_suffix(".writing")
        temporary.write_bytes(msgspec.json.encode(self._counts))
        temporary.rename(self._file)


def _add(total: _Counts, more: _Counts) -> None:
    total.worker_deaths += more.worker_deaths
    for key, count in more.requests.items():
        total.requests[key] = total.requests.get(key, 0) + count
    for operation, counts in more.buckets.items():
        before = total.buckets.get(operation, [0] * len(counts))
        total.buckets[operation] = [a + b for a, b in zip(before, counts, strict=True)]
    for operation, seconds in more.seconds.items():
        total.seconds[operation] = total.seconds.get(operation, 0.0) + seconds


def _rendered(counts: _Counts) -> str:
    lines = ["# HELP graveler_requests_total Requests answered.", "# TYPE graveler_requests_total counter"]
    for key, count in sorted(counts.requests.items()):
        operation, _, status = key.rpartition(" ")
        lines.append(f"graveler_requests_total{_labels(operation=operation, status=status)} {count}")
    name = "graveler_request_duration_seconds"
    lines += [f"# HELP {name} From the request's head to the answer's.", f"# TYPE {name} histogram"]
    for operation, buckets in sorted(counts.buckets.items()):
        running = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), buckets, strict=True):
            running += count
            lines.append(f"{name}_bucket{_labels(operation=operation, le=bound)} {running}")
        lines.append(f"{name}_sum{_labels(operation=operation)} {counts.seconds.get(operation, 0.0):.6f}")
        lines.append(f"{name}_count{_labels(operation=operation)} {running}")
    name = "graveler_worker_deaths_total"
    lines += [f"# HELP {name} Worker processes that ended unexpectedly.", f"# TYPE {name} counter"]
    lines.append(f"{name} {counts.worker_deaths}")
    return "\n".join((*lines, ""))


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
