"""The site builds strictly, in its own environment, and planted faults fail the build with a message."""

import fcntl
import json
import subprocess
from pathlib import Path

import pytest

from tests.docs_site.sources import ROOT
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of ``.venv-docs``."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "docs-tools.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers want it too
        subprocess.run(["make", "docs-tools"], cwd=ROOT, check=True, timeout=PATIENCE)
    return ROOT / ".venv-docs" / "bin" / "python"


def build(python: Path, into: Path, planted: str = "") -> subprocess.CompletedProcess[str]:
    """Build the site, with a page of a text if there is one."""
    program = """
import sys
from pathlib import Path
from tests import make_site
from tests.docs_site import sources
into, planted = Path(sys.argv[1]), sys.argv[2]
if planted:
    text = (sources.ROOT / "docs/verbs.md").read_text() + chr(10) + planted
    whole = make_site.made
    make_site.made = lambda: {**whole(), "docs/verbs.md": text}
sys.exit(chr(10).join(make_site.build(into)) or 0)
"""
    command = [str(python), "-c", program, str(into), planted]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_the_site_builds_and_has_every_page(python: Path, tmp_path: Path) -> None:
    done = build(python, tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {
        path.relative_to(tmp_path / "site/pages").with_suffix("") for path in (tmp_path / "site/pages").rglob("*.md")
    }
    built = {
        path.relative_to(tmp_path / "site/html").with_suffix("") for path in (tmp_path / "site/html").rglob("*.html")
    }
    assert {page.with_name("index") if page.name == "README" else page for page in pages} <= built
    start = (tmp_path / "site/html/index.html").read_text()
    assert "Git for a data lake, without a server" in start
    assert "docs/tutorial.html" in start
    reference = (tmp_path / "site/html/docs/reference/python.html").read_text()
    assert 'id="graveler.Branch.commit"' in reference
    assert 'href="exceptions.html#graveler.errors.NoChangesError"' in reference
    assert '<span class="doc doc-object-name doc-function-name">Branch.commit</span>' in reference
    tutorial = (tmp_path / "site/html/docs/tutorial.html").read_text()
    assert 'data-copy="graveler init&#10;graveler repo create lakefs://sales&#10;' in tutorial
    script = 'src="../assets/search_in_a_folder.js"'
    assert 0 < tutorial.index(script) < tutorial.index('src="../assets/javascripts/bundle')
    index = (tmp_path / "site/html/search.js").read_text()
    assert index.startswith("var __index={")
    assert '"title":"Branch.commit"' in index


WORKER = """
const window = {}, location = new URL("file:///site/index.html"), log = [];
const inner = Object.assign(new EventTarget(), { document: { createElement: () => ({}), head: { append(script) {
  log.push(script.src);
  inner.addEventListener("message", event => inner.postMessage({ answer: event.data.number + 1 }));
  setTimeout(script.onload);
} } } });
const document = { createElement: () => ({ contentWindow: inner, remove: () => log.push("removed") }), body: { append() {} } };
eval(require("fs").readFileSync(process.argv[1], "utf8"));
const worker = new window.Worker("./assets/worker.js");
let within = true;
worker.onmessage = event => {
  log.push(event.data.answer);
  if (within) throw new Error("a message comes while another one is sent");
  if (event.data.answer < 3) { within = true; worker.postMessage({ number: 2 }); within = false; } else worker.terminate();
};
worker.postMessage({ number: 1 });
within = false;
process.on("exit", () => console.log(JSON.stringify(log)));
"""


def test_the_search_of_a_folder_runs_its_worker_in_a_frame() -> None:
    script = ROOT / "tests/docs_site/search_in_a_folder.js"
    done = subprocess.run(["node", "-e", WORKER, str(script)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["file:///site/assets/worker.js", 2, 3, "removed"]


@pytest.mark.parametrize(
    "faults",
    [
        {
            "[a page](nowhere.md)": "page does not exist",
            "[an anchor](format.md#nowhere)": "anchor does not exist",
            "[a reference][nowhere]": "unresolved autoref",
        },
        {"::: graveler.nowhere": "graveler.nowhere could not be found"},
        {
            "![a drawing](nowhere.svg)": "nowhere.svg: no such file",
            "![a drawing](https://example.org/drawing.svg)": "loads https://example.org/drawing.svg from another host",
        },
    ],
    ids=["strict", "mkdocstrings", "built"],
)
def test_faults_fail_the_build(faults: dict[str, str], python: Path, tmp_path: Path) -> None:
    done = build(python, tmp_path / "site", "\n\n".join(faults))
    assert done.returncode == 1
    for message in faults.values():
        assert message in done.stderr
