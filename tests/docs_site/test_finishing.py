"""Copy buttons copy the commands of a session, headings of methods name their class, and a folder has the index of the search."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from tests.docs_site.finishing import SCRIPT, commands, finish

SESSION = "$ printf 'a &lt; &quot;b&quot;\\n' &amp;&amp; echo c\na &lt; b\n$ false  # exit 1\n"
PAGE = f"""<h2 id="graveler.Branch" class="doc doc-heading"><span class="doc-class-name">Branch</span></h2>
<h3 id="graveler.Branch.commit" class="doc doc-heading">
   <span class="doc-function-name">commit</span></h3>
<h2 id="graveler.open" class="doc doc-heading"><span class="doc-function-name">open</span></h2>
<div class="language-console highlight"><pre><code tabindex="0"><span class="gp">$ </span>{SESSION[2:]}</code></pre></div>
<div class="language-bash highlight"><pre><code>$ echo</code></pre></div>
<div class="language-text highlight"><pre><code>a tree</code></pre></div>
<script src="../assets/javascripts/bundle.1.min.js"></script>"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "assets").mkdir()
    (tmp_path / "docs/a.html").write_text(PAGE)
    places = {"#graveler.Branch.commit": "commit", "#graveler.open": "open", "#a-heading": "A heading"}
    items = [{"location": f"docs/a.html{place}", "title": title} for place, title in places.items()]
    (tmp_path / "search.json").write_text(json.dumps({"config": {}, "items": items}))
    finish(tmp_path)
    return tmp_path


def test_a_session_is_copied_as_its_commands(site: Path) -> None:
    page = (site / "docs/a.html").read_text()
    (copied,) = re.findall(r'data-copy="([^"]*)"', page)
    assert unescape(copied) == "printf 'a < \"b\"\\n' && echo c\nfalse"
    assert "<code>$ echo</code>" in page
    assert "<code>a tree</code>" in page
    assert commands("nothing\n") == ""


def test_headings_of_methods_and_their_results_name_the_class(site: Path) -> None:
    page = (site / "docs/a.html").read_text()
    assert re.findall(r">([\w.]+)</span></h", page) == ["Branch", "Branch.commit", "open"]
    titles = [item["title"] for item in json.loads((site / "search.json").read_text())["items"]]
    assert titles == ["Branch.commit", "open", "A heading"]


def test_a_folder_has_the_index_and_the_script_before_the_one_that_starts_the_search(site: Path) -> None:
    written = (site / "search.js").read_text()
    assert json.loads(written.removeprefix("var __index=")) == json.loads((site / "search.json").read_text())
    assert (site / "assets" / SCRIPT.name).read_text() == SCRIPT.read_text()
    assert re.findall(r'<script src="([^"]*)"', (site / "docs/a.html").read_text()) == [
        f"../assets/{SCRIPT.name}",
        "../assets/javascripts/bundle.1.min.js",
    ]
