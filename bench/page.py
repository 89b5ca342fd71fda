"""``python -m bench.page``: what the web page takes in a browser. Prints a table of times by the clock, and of CPU beside them.

It runs in ``.venv-web`` (``make web-test-tools``), with the built page of ``web/package``:
``PYTHONPATH=web/package .venv-web/bin/python -m bench.page --folder /tmp/page``. The lake is created once and kept in the folder.
``--whole FILE`` measures the page of a deployment on the emulator, too, whose file ``tests/infra/test_web_page.py`` writes.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from playwright.sync_api import Browser, Page, Playwright, sync_playwright
from tests.web.conftest import CHROMIUM, OPTIONS

from bench.page_lake import FLAT, LONG, TABLE, TABLES, create_page_lake

_PATIENCE_MS: Final = 120_000
_MS: Final = 1000

_NOTE_ROWS: Final = """
window.shown = new Promise(resolve => {
  const observer = new MutationObserver(() => {
    if (!document.querySelector("main tbody a")) return;
    observer.disconnect();
    requestAnimationFrame(() => resolve(performance.now()));
  });
  observer.observe(document, {childList: true, subtree: true});
});
"""
"""Notes when the first row is drawn, in milliseconds since the navigation."""

_SCROLL: Final = """
async wanted => {
  const frame = () => new Promise(requestAnimationFrame);
  const rows = () => Number(document.querySelector("main table").getAttribute("aria-rowcount")) - 1;
  while (rows() < wanted || scrollY + innerHeight < document.documentElement.scrollHeight - 1) {
    scrollBy(0, innerHeight);
    await frame();
  }
  return rows();
}
"""

_JUMP: Final = """
async () => {
  const frame = () => new Promise(requestAnimationFrame);
  scrollTo(0, 0);
  await frame(); await frame();
  const last = Number(document.querySelector("main table").getAttribute("aria-rowcount"));
  const start = performance.now();
  scrollTo(0, document.documentElement.scrollHeight);
  while (!document.querySelector(`main tr[aria-rowindex="${last}"]`)) await frame();
  await frame();
  return performance.now() - start;
}
"""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="of the lake, which is created if it is missing")
    parser.add_argument(
        "--objects", type=int, default=100_000, help="of the folder that is scrolled (default %(default)s)"
    )
    parser.add_argument("--commits", type=int, default=100_000, help="of the history (default %(default)s)")
    parser.add_argument("--repeat", type=int, default=7, help="visits of each kind (default %(default)s)")
    parser.add_argument("--whole", type=Path, help="file that describes a deployment on the emulator")
    arguments = parser.parse_args()
    if not arguments.folder.exists():
        create_page_lake(arguments.folder, arguments.objects, arguments.commits, 1 << 30)
    print("| what | least | median | goal | beside |\n|---|---:|---:|---:|---|")
    with sync_playwright() as playwright:
        with serving(arguments.folder / "lake") as (process, url):
            browser = chromium(playwright)
            page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
            page.set_default_timeout(_PATIENCE_MS)
            page.goto(url)
            page.get_by_role("link", name=FLAT, exact=True).wait_for()
            for line in measured(page, url.partition("/auth")[0], process, arguments):
                print(line, flush=True)
            browser.close()
        if arguments.whole:
            print(cold_visits(playwright, arguments.whole, arguments.repeat))


def measured(page: Page, origin: str, process: int, arguments: argparse.Namespace) -> Iterator[str]:
    """Measure on ``graveler ui``, and return the rows of the table one by one."""
    page.add_init_script(_NOTE_ROWS)

    def visit(address: str) -> float:
        page.goto(origin + address)
        return float(page.evaluate("window.shown"))

    folder = f"/repositories/{FLAT}/objects?ref=main"
    yield repeated("first folder, warm", "300 ms", lambda: visit(folder), page, process, arguments.repeat)
    deep = f"{folder}&path=data/"
    yield repeated("folder of 100,000: first rows", "", lambda: visit(deep), page, process, arguments.repeat)
    history = f"/repositories/{LONG}/commits?ref=main"
    yield repeated(
        f"first commits of {arguments.commits:,}", "400 ms", lambda: visit(history), page, process, arguments.repeat
    )
    yield repeated(
        "jump to the end of the loaded commits",
        "50 ms",
        lambda: float(page.evaluate(_JUMP)),
        page,
        process,
        arguments.repeat,
    )
    visit(deep)
    yield scrolled(page, arguments.objects)
    page.goto(f"{origin}/repositories/{TABLES}/object?ref=main&path={TABLE}")
    status = page.get_by_role("status").filter(has_text=re.compile("read .* of"))
    yield f"| Parquet: bytes for the first rows | | | 1 MiB | {status.inner_text()} |"


def repeated(what: str, goal: str, once: Callable[[], float], page: Page, process: int, repeat: int) -> str:
    """Return the row of something that is done several times; ``once`` returns milliseconds. CPU counts until all is loaded."""
    once()
    times, browser, server = [], [], []
    for _ in range(repeat):
        page.wait_for_load_state("networkidle")
        before = (browser_seconds(), cpu_seconds(process))
        times.append(once())
        page.wait_for_load_state("networkidle")
        after = (browser_seconds(), cpu_seconds(process))
        browser.append((after[0] - before[0]) * _MS)
        server.append((after[1] - before[1]) * _MS)
    beside = f"CPU until all is loaded: browser {median(browser):.0f} ms, server {median(server):.0f} ms"
    return f"| {what} | {min(times):.0f} ms | {median(times):.0f} ms | {goal} | {beside} |"


def browser_seconds() -> float:
    """Return the CPU time of the processes of the browsers that this process started, so far."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    ours = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    total = 0.0
    for process in ours:
        with suppress(FileNotFoundError, ProcessLookupError):
            if "chromium" in Path(f"/proc/{process}/cmdline").read_text():
                total += cpu_seconds(process)
    return total


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scrolled(page: Page, objects: int) -> str:
    """Scroll through all entries, and return the row of the longest tasks: by the clock, and of the thread's CPU."""
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, categories=["toplevel"])
    rows = page.evaluate(_SCROLL, objects)
    events = msgspec.json.decode(browser.stop_tracing())["traceEvents"]
    (thread,) = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    } & {(event["pid"], event["tid"]) for event in events if event.get("tdur", 0) > _MS}
    tasks = [
        event
        for event in events
        if (event.get("pid"), event.get("tid")) == thread and event["name"].endswith("RunTask")
    ]
    clock = [event.get("dur", 0) / _MS for event in tasks]
    cpu = [event.get("tdur", 0) / _MS for event in tasks]
    late = sum(one > 50 for one in clock)
    return (
        f"| scrolling {rows:,} entries: longest task | {max(cpu):.0f} ms of CPU | {max(clock):.0f} ms by the clock | 50 ms | "
        f"{late} of {len(tasks):,} tasks above 50 ms by the clock, {sum(one > 50 for one in cpu)} of CPU; {sum(cpu) / _MS:.1f} s "
        "of CPU in all |"
    )


def cold_visits(playwright: Playwright, description: Path, repeat: int) -> str:
    """Return the row of a first folder in a deployment whose functions have no process yet."""
    from tests.web.deployed.conftest import DeployedSite, Whole
    from tests.web.deployed.front import StoreFront, TlsFront

    whole = msgspec.json.decode(description.read_bytes(), type=Whole)
    site = DeployedSite(whole, StoreFront(whole.address, whole.cors))
    with TemporaryDirectory() as folder:
        api = TlsFront(whole.name, whole.address, Path(folder))
        browser = chromium(playwright, f"--host-resolver-rules=MAP {whole.name}:443 127.0.0.1:{api.port}")
        name, _, value = site.log_in().partition("=")
        cold: list[float] = []
        warm: list[float] = []
        for number in range(repeat):
            restart(whole.emulator, f"visit {number}")
            context = browser.new_context(ignore_https_errors=True)
            context.add_cookies([{"name": name, "value": value, "url": site.origin}])
            page = context.new_page()
            page.set_default_timeout(_PATIENCE_MS)
            page.add_init_script(_NOTE_ROWS)
            for times in (cold, warm):
                page.goto(f"{site.origin}/repositories/orders/objects?ref=main")
                times.append(float(page.evaluate("window.shown")))
            context.close()
        browser.close()
    beside = f"once more: least {min(warm):.0f} ms, median {median(warm):.0f} ms"
    return f"| first folder, cold functions | {min(cold):.0f} ms | {median(cold):.0f} ms | 1,500 ms | {beside} |"


def restart(emulator: str, description: str) -> None:
    """End the processes of all functions, by a change of their settings."""
    for function in asked(f"{emulator}/2015-03-31/functions/")["Functions"]:
        change = {"Description": description}
        asked(f"{emulator}/2015-03-31/functions/{function['FunctionName']}/configuration", change)


def asked(url: str, change: Mapping[str, str] | None = None) -> Any:
    """Return the answer of the emulator's Lambda."""
    request = urllib.request.Request(url, method="PUT" if change else "GET")
    request.add_header("authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/lambda/aws4_request")
    with urllib.request.urlopen(request, json.dumps(change).encode() if change else None) as answer:
        return json.load(answer)


def chromium(playwright: Playwright, *more: str) -> Browser:
    """Start Chromium."""
    return playwright.chromium.launch(executable_path=CHROMIUM, args=[*OPTIONS, *more])


@contextmanager
def serving(lake: Path) -> Iterator[tuple[int, str]]:
    """Run ``graveler ui`` on a lake; returns its process and the address that it shows."""
    command = [sys.executable, "-m", "graveler.cli", "ui", str(lake), "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
