"""Sign-in, folder, Parquet, comparison, merge with a conflict, upload."""

import re
from pathlib import Path

from playwright.sync_api import expect

from graveler.api.settings import DEFAULT_MAX_BODY
from tests.web.conftest import PATIENCE_MS, Visit
from tests.web.deployed.conftest import DeployedSite, measurements
from tests.web.deployed.front import cors_headers

BYTES = "/refs/main/objects?"
PARQUET = "/repositories/orders/object?ref=main&path=events/part-0.parquet"


def test_a_link_leads_through_the_sign_in_to_a_folder(stranger: Visit, site: DeployedSite) -> None:
    page = stranger.go("/repositories/orders/objects?ref=main")
    expect(page).to_have_url(re.compile("/auth/login"))
    page.get_by_label("Access key ID").fill(site.key_id)
    page.get_by_label("Secret access key").fill(site.secret)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="events/", exact=True).wait_for()
    expect(page).to_have_url(re.compile(r"/repositories/orders/objects\?ref=main"))
    (cookie,) = page.context.cookies()
    assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Lax")
    page.locator(".user summary").click()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Access key ID").wait_for()
    assert page.context.cookies() == []


def test_the_columns_of_a_folder_fill_in(visit: Visit) -> None:
    page = visit.go("/repositories/orders/objects?ref=main")
    row = page.locator("tr", has=page.get_by_role("link", name="events/", exact=True))
    expect(row).to_contain_text("MiB", timeout=PATIENCE_MS)
    expect(row).to_contain_text("Load", timeout=PATIENCE_MS)
    page.get_by_label("README").get_by_role("heading", name="Orders").wait_for()
    page.get_by_role("link", name="events/", exact=True).click()
    page.get_by_role("link", name="part-0.parquet").wait_for()


def test_parquet_is_read_by_presigned_ranges_and_downloaded_by_a_redirect(
    visit: Visit, site: DeployedSite, tmp_path: Path
) -> None:
    contents = measurements()
    assert len(contents) > DEFAULT_MAX_BODY
    site.store.requests.clear()
    by_function: list[str] = []
    visit.page.on("request", lambda request: by_function.append(request.url) if BYTES in request.url else None)
    page = visit.go(PARQUET)
    expect(page.get_by_role("table").first).to_contain_text("11.5")
    assert by_function == []
    ranges = [asked for method, asked, _ in site.store.requests if method == "GET"]
    assert ranges
    spans = [tuple(map(int, asked.removeprefix("bytes=").split("-"))) for asked in ranges]
    assert sum(last - start + 1 for start, last in spans) < len(contents) // 3
    with page.expect_download() as started:
        page.get_by_role("link", name="Download").click()
    started.value.save_as(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == contents
    assert site.store.requests[-1][:2] == ("GET", "")  # the function's answer led to the store


def test_a_url_that_expired_while_one_looked_is_asked_for_again(visit: Visit, site: DeployedSite) -> None:
    page = visit.go(PARQUET)
    expect(page.get_by_role("table").first).to_contain_text("11.5")
    refused: list[int] = []
    page.on("response", lambda response: refused.append(response.status) if response.status == 403 else None)
    site.store.expired = 1
    page.get_by_label("Jump to row").fill("300001")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table").first).to_contain_text("150010.5")
    assert refused == [403]
    expect(page.get_by_role("alert")).to_have_count(0)


def test_the_bucket_lets_no_other_page_read_a_presigned_url(visit: Visit, site: DeployedSite) -> None:
    site.store.requests.clear()
    visit.go(PARQUET)
    expect(visit.page.get_by_role("table").first).to_contain_text("11.5")
    path = site.store.requests[-1][2]
    assert cors_headers(site.whole.cors, "https://elsewhere.test", "GET") is None
    other = visit.page.context.browser.new_context().new_page()
    read = "url => fetch(url, {headers: {range: 'bytes=0-3'}}).then(answer => answer.status, error => String(error))"
    assert "Failed to fetch" in other.evaluate(read, f"{site.whole.emulator}{path}")
    other.context.close()


def test_a_comparison_shows_what_would_change(visit: Visit) -> None:
    page = visit.go("/repositories/orders/compare?ref=main&compare=fix&mode=two")
    page.get_by_role("link", name="prices.csv").or_(page.get_by_role("button", name="prices.csv")).first.click()
    expect(page.get_by_role("deletion")).to_have_text("220", timeout=PATIENCE_MS)
    expect(page.get_by_role("insertion")).to_have_text("250")


def test_a_conflict_is_decided_and_merged(visit: Visit, site: DeployedSite) -> None:
    for name, source in (("into", "main"), ("from", "fix")):
        site.change("POST", "/repositories/orders/branches", {"name": name, "source": source})
    page = visit.go("/repositories/orders/compare?ref=into&compare=from")
    expect(page.get_by_role("button", name="Decide 1 conflict")).to_be_disabled()
    page.get_by_role("group", name="prices.csv").get_by_label("take from").check()
    page.get_by_role("button", name="Merge into into").click()
    page.get_by_role("heading", name=re.compile("Merge")).wait_for()
    merged = site.ask("GET", "/api/v1/repositories/orders/refs/into/objects?path=prices.csv&presign=false")
    assert merged.status == 200
    assert b"2,250" in merged.body


def test_files_are_uploaded_by_presigned_urls(visit: Visit, site: DeployedSite, tmp_path: Path) -> None:
    site.change("POST", "/repositories/orders/branches", {"name": "new", "source": "main"})
    (tmp_path / "small.txt").write_bytes(b"by the page\n")
    (tmp_path / "large.bin").write_bytes(bytes(17 << 20))
    page = visit.go("/repositories/orders/objects?ref=new")
    site.store.requests.clear()
    page.locator("input[type=file]").set_input_files([tmp_path / "small.txt", tmp_path / "large.bin"])
    page.get_by_role("link", name="small.txt").wait_for()
    page.get_by_role("link", name="large.bin").wait_for()
    assert [method for method, _, _ in site.store.requests].count("PUT") == 3  # the large one in two parts
    stats = site.ask("GET", "/api/v1/repositories/orders/refs/new/objects/stat?path=large.bin").json()
    assert stats["size_bytes"] == 17 << 20
    page.get_by_role("link", name="~ uncommitted").click()
    page.get_by_label("Message").fill("Upload by the page")
    page.get_by_role("button", name="Commit to new").click()
    page.get_by_role("heading", name="Upload by the page").wait_for()
