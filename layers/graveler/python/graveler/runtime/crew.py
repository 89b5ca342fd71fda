"""Worker processes for work on many ranges: intervals of the key space are independent, so each core takes some.

Workers are started when there is enough to do, are shared by all threads of the process, and end when they have had no task for a
minute, or when this process ends. They are plain interpreters that read tasks from a pipe, and not ``multiprocessing``'s: a
library must not make its user's script run a second time because that script has no ``if __name__ == "__main__"``, and must not
fork a process that has threads.

Messages are small: functions by name, the descriptions of ranges, changes. The workers read and write files themselves.
"""

import os
import pickle
import subprocess
import sys
from atexit import register
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from select import select
from struct import Struct as Layout
from typing import IO, Any, Final, ParamSpec, TypeVar

from graveler.errors import UnavailableError
from graveler.system.forks import new_lock
from graveler.system.secret_variables import handed_on, take_over

P = ParamSpec("P")
T = TypeVar("T")

_LENGTH: Final = Layout("<Q")
_IDLE_SECONDS: Final = 60.0
_PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from graveler.runtime.crew import work; work()"


class _WorkerGoneError(Exception):
    """The process at the other end has ended."""


class _Worker:
    """One process, and the pipes to it. Used by one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, task: bytes) -> Any:
        """Run a task in the worker. If the worker is gone, a new one gets the task, once: doing a task twice does no harm."""
        try:
            return self._ask(task)
        except _WorkerGoneError:
            self.end()
        try:
            return self._ask(task)
        except _WorkerGoneError:
            self.end()
            raise UnavailableError(
                "a worker process ended before its task was done (out of memory?); set GRAVELER_WORKERS=1 to work without workers"
            ) from None

    @property
    def is_running(self) -> bool:
        """True if the process runs. It ends by itself after a while without tasks."""
        process = self._process
        return process is not None and process.poll() is None

    def end(self) -> None:
        """Let the process end, and wait for it."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin
            assert process.stdout
            with suppress(OSError):
                process.stdin.close()
            process.wait()
            process.stdout.close()

    def _ask(self, task: bytes) -> Any:
        if self._process is None:
            program = _PROGRAM.format(path=sys.path)
            # Unbuffered: written bytes are sent at once.
            with handed_on(os.environ) as (environment, descriptors):
                self._process = subprocess.Popen(
                    [sys.executable, "-c", program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    bufsize=0,
                    env=environment,
                    pass_fds=descriptors,
                )
        assert self._process.stdin
        assert self._process.stdout
        try:
            _send(self._process.stdin, task)
        except OSError:
            raise _WorkerGoneError from None
        answer = _receive(self._process.stdout)
        if answer is None:
            raise _WorkerGoneError
        done, value = pickle.loads(answer)  # from our own worker
        if not done:
            raise _raised(*value)
        return value


class Crew:
    """A crew of ``size`` workers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="graveler-crew")
        self._workers = [_Worker() for _ in range(size)]
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)

    def can(self, *values: object) -> bool:
        """Return whether these values can be sent to a worker: they must be picklable, of classes that other processes know
        too."""
        try:
            return bool(self._call(_task(_arrived, values)))
        except (pickle.PicklingError, AttributeError, ImportError, TypeError):
            return False

    def run(self, function: Callable[..., T], tasks: Iterable[tuple[object, ...]]) -> Iterator[T]:
        """Yield ``function(*task)`` for each task, in order; an error of one is raised here. Tasks are drawn, and results held, a
        few ahead of the consumer."""
        pending: deque[Future[T]] = deque()
        try:
            for task in tasks:
                pending.append(self._threads.submit(self._call, _task(function, task)))
                if len(pending) > 2 * self.size:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    @property
    def is_running(self) -> bool:
        """True if all processes run: none has to be started for the next tasks."""
        return all(worker.is_running for worker in self._workers)

    def end(self) -> None:
        """Let all processes end."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.end()

    def _call(self, task: bytes) -> Any:
        worker = self._free.get()
        try:
            return worker.call(task)
        finally:
            self._free.put(worker)


_crews: dict[tuple[int, int], Crew] = {}
_lock = new_lock()


def crew(size: int) -> Crew:
    """Return this process's crew of that many workers. The first call starts it."""
    with _lock:
        # A forked child has its parent's table, and must leave its parent's pipes alone.
        workers = _crews.get((os.getpid(), size))
        if workers is None:
            workers = _crews[os.getpid(), size] = Crew(size)
            if len(_crews) == 1:
                register(_end_all)
        return workers


def is_running(size: int) -> bool:
    """Return whether this process's crew of that many workers runs. Starts nothing."""
    workers = _crews.get((os.getpid(), size))
    return workers is not None and workers.is_running


def _end_all() -> None:
    for (process, _), workers in _crews.items():
        if process == os.getpid():
            workers.end()


def _task(function: Callable[..., object], arguments: tuple[object, ...]) -> bytes:
    """Return the message to a worker. Relative paths mean there what they mean here."""
    try:
        folder = os.getcwd()  # noqa: PTH109 - as text
    except FileNotFoundError:
        folder = ""  # removed meanwhile: no path is relative to it
    return pickle.dumps((folder, pickle.dumps((function, arguments))))


def _arrived(*values: object) -> bool:
    return bool(values)


def work() -> None:
    """Run a worker: tasks from standard input, answers to standard output, until the end of input or a minute without a task."""
    import signal

    take_over()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the one that gave the tasks decides
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    target = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # printed text is no answer
    while select([source], [], [], _IDLE_SECONDS)[0] and (task := _receive(source)) is not None:
        try:
            folder, packed = pickle.loads(task)  # from the process that started this one
            if folder:
                os.chdir(folder)  # before anything is unpacked, which may open files
            function, arguments = pickle.loads(packed)
            answer = pickle.dumps((True, function(*arguments)))
        except BaseException as error:  # noqa: BLE001 - any error belongs to the caller
            try:
                answer = pickle.dumps((False, (type(error), error.args, error.__dict__)))
                pickle.loads(answer)  # some things can be written and not read
            except Exception:  # noqa: BLE001
                answer = pickle.dumps((False, (UnavailableError, (f"in a worker process: {error!r}",), {})))
        try:
            _send(target, answer)
        except BrokenPipeError:
            return


def _raised(kind: type[BaseException], arguments: tuple[object, ...], attributes: dict[str, object]) -> BaseException:
    """Return a worker's error. Does not call its class, which may take other arguments than it keeps."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(attributes)
    return error


def _send(pipe: IO[bytes], message: bytes) -> None:
    rest = memoryview(_LENGTH.pack(len(message)) + message)
    while rest:
        rest = rest[pipe.write(rest) :]


def _receive(pipe: IO[bytes]) -> bytes | None:
    """Return the next message, or None at the end."""
    head = _read(pipe, _LENGTH.size)
    return None if head is None else _read(pipe, *_LENGTH.unpack(head))


def _read(pipe: IO[bytes], size: int) -> bytes | None:
    parts = []
    while size:
        part = pipe.read(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
