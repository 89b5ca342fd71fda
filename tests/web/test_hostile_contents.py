"""What a writer puts into a README: nothing runs, nothing leaves for elsewhere, and nobody's page stops."""

from collections.abc import Iterator
from secrets import token_hex
from typing import Final

import pytest
from playwright.sync_api import Route, expect

from tests.web.conftest import Visit

TOO_MUCH: Final = "This Markdown is too much for the page to draw."

SCRIPTS: Final = """# Report
<script>document.title = "taken over"</script><img src=x onerror="document.title = 'taken over'">
[code](javascript:alert(1)) [data](data:text/html,x) ![elsewhere](https://elsewhere.test/track.png)
<style>@import url(https://elsewhere.test/a.css);</style><meta http-equiv="refresh" content="0;url=https://elsewhere.test/">
<iframe src="https://elsewhere.test/"></iframe><form action="https://elsewhere.test/"><input name="secret"></form>
<video poster="https://elsewhere.test/p" src="https://elsewhere.test/v"></video><svg onload="alert(1)"></svg>
<base href="https://elsewhere.test/"><math><mi xlink:href="javascript:alert(1)">x</mi></math>

The end of it.
"""

LONG: Final = {
    "an address that takes an hour to parse": "a." * 200_000 + "@",
    "quotations deeper than the parser's stack": "> " * 50_000 + "x",
    "tables within tables": "<table><tr><td>x" * 3_000,
    "elements without an end": "<b>" * 300_000,
}


@pytest.fixture
def reports(visit: Visit) -> Iterator[str]:
    """A repository for a README, without one."""
    visit.call("POST", "/repositories", {"name": "reports", "storage_namespace": f"local://{token_hex(8)}"})
    yield "/repositories/reports"
    visit.call("DELETE", "/repositories/reports")


def write_readme(visit: Visit, text: str) -> None:
    answer = visit.site.ask(
        "POST", "/api/v1/repositories/reports/branches/main/objects?path=README.md", body=text.encode()
    )
    assert answer.status == 201, answer.body


def test_nothing_in_a_readme_runs_or_loads(visit: Visit, reports: str) -> None:
    write_readme(visit, SCRIPTS)
    requests: list[str] = []
    visit.page.on("request", lambda request: requests.append(request.url))
    page = visit.go(f"{reports}/objects?ref=main")
    readme = page.get_by_label("README")
    readme.get_by_text("The end of it.").wait_for()
    assert "taken over" not in page.title()
    elements = "script, style, meta, iframe, form, input, video, svg, base, math, [onerror], [onload], a[href]"
    expect(readme.locator(elements)).to_have_count(0)
    assert [url for url in requests if not url.startswith((visit.origin, "blob:"))] == []
    # The browser tells of what its policy refused where the sanitiser parsed the text.
    assert [error for error in visit.errors if "Content Security Policy" not in error] == []
    visit.errors.clear()


PAGES: Final = {
    "text/html": (
        '<body style="background: rgb(1, 2, 3) url(https://elsewhere.test/b.png)"><img src="https://elsewhere.test/i.png">'
        '<link rel="stylesheet" href="https://elsewhere.test/s.css"><script>document.title = "taken over"</script>'
        '<video src="https://elsewhere.test/v.mp4" autoplay></video><p>Report</p>'
    ),
    "image/svg+xml": (
        '<svg xmlns="http://www.w3.org/2000/svg" style="background: rgb(1, 2, 3)"><text y="20">Report</text>'
        '<image href="https://elsewhere.test/i.png" width="9" height="9"/><script>document.title = "taken over"</script></svg>'
    ),
}


@pytest.mark.parametrize("content_type", PAGES)
def test_an_object_that_is_opened_by_its_link_runs_and_loads_nothing(
    visit: Visit, reports: str, content_type: str
) -> None:
    objects = f"{reports}/branches/main/objects?path=report"
    written = visit.site.ask("POST", f"/api/v1{objects}", PAGES[content_type].encode(), {"content-type": content_type})
    assert written.status == 201, written.body
    sent: list[str] = []

    def note(route: Route) -> None:
        sent.append(route.request.url)
        route.abort()

    visit.page.context.route("https://elsewhere.test/**", note)
    page = visit.page.context.new_page()  # in its console are the refusals that are expected
    page.goto(f"{visit.origin}/api/v1{reports}/refs/main/objects?path=report")
    page.get_by_text("Report").wait_for()
    expect(page.locator("body, svg").first).to_have_css("background-color", "rgb(1, 2, 3)")
    assert page.title() != "taken over"
    assert not sent


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_readme_that_takes_too_long_is_not_drawn(visit: Visit, reports: str, text: str) -> None:
    write_readme(visit, text)
    page = visit.page
    page.goto(f"{visit.origin}{reports}/objects?ref=main")
    expect(page.get_by_label("README").get_by_role("alert")).to_contain_text(TOO_MUCH)
    page.get_by_role("link", name="README.md").first.wait_for()


def test_a_readme_loads_no_more_than_a_hundred_pictures(visit: Visit, reports: str) -> None:
    write_readme(visit, "![words](absent.png) " * 1_000)
    stats: list[str] = []
    visit.page.on("request", lambda request: stats.append(request.url) if "absent.png" in request.url else None)
    page = visit.go(f"{reports}/objects?ref=main")
    page.get_by_label("README").get_by_text("words words").wait_for()
    expect(page.get_by_label("README").locator("img")).to_have_count(0)
    assert 0 < len(stats) <= 100
