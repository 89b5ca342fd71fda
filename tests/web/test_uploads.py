"""Uploads: chosen and dropped files, folders, progress, cancelling, failures, large files, and branches that take none."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import FilePayload, Locator, Page, Request, Route, expect

from tests.web.conftest import Visit

BYTES: Final = re.compile("/objects/data/")
"""Addresses of bytes: presigned URLs of a lake in a folder."""
PART: Final = 16 << 20
NAMES: Final = ("100% #1 & more?.txt", "with space.txt", "größe.txt", "a+b=c;d.txt", "%41.txt")


@pytest.fixture
def branch(request: pytest.FixtureRequest, visit: Visit) -> str:
    """A branch of this test, at ``main`` of ``sales``."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    visit.call("POST", "/repositories/sales/branches", {"name": name, "source": "main"})
    return name


def text(name: str, contents: bytes = b"x") -> FilePayload:
    return {"name": name, "mimeType": "text/plain", "buffer": contents}


def folder(visit: Visit, branch: str) -> Page:
    page = visit.go(f"/repositories/sales/objects?ref={branch}&path=inbox/")
    chooser(page).wait_for(state="attached")
    return page


def chooser(page: Page) -> Locator:
    return page.locator("input[type=file]")


def uploads(page: Page) -> Locator:
    return page.get_by_role("region", name="Uploads")


def staged(visit: Visit, branch: str) -> dict[str, int]:
    """The sizes of the objects that are uploaded to a branch, by path."""
    changes: list[dict[str, Any]] = visit.call("GET", f"/repositories/sales/branches/{branch}/diff")["results"]
    return {change["path"]: change["size_bytes"] for change in changes}


def test_chosen_files_arrive_under_their_names(visit: Visit, branch: str) -> None:
    page = folder(visit, branch)
    chooser(page).set_input_files([text(name, name.encode()) for name in NAMES])
    expect(uploads(page)).to_contain_text(f"{len(NAMES)} of {len(NAMES)} uploaded")
    for name in NAMES:
        page.get_by_role("link", name=name, exact=True).wait_for()
    assert staged(visit, branch) == {f"inbox/{name}": len(name.encode()) for name in NAMES}
    page.get_by_role("link", name=NAMES[0], exact=True).click()
    expect(page.locator("main")).to_contain_text(NAMES[0])
    page.go_back()
    changes = page.get_by_role("navigation", name="Sections").get_by_role("link", name="Changes")
    expect(changes).to_have_text(f"Changes{len(NAMES)}")


def test_a_dropped_file_arrives(visit: Visit, branch: str) -> None:
    page = folder(visit, branch)
    transfer = page.evaluate_handle(
        "() => { const transfer = new DataTransfer(); transfer.items.add(new File(['dropped'], 'one.txt')); return transfer }"
    )
    page.dispatch_event(".drop", "dragover", {"dataTransfer": transfer})
    page.dispatch_event(".drop", "drop", {"dataTransfer": transfer})
    page.get_by_role("link", name="one.txt").wait_for()
    assert staged(visit, branch) == {"inbox/one.txt": 7}


def test_a_dropped_folder_arrives_with_all_that_is_in_it(visit: Visit, branch: str, tmp_path: Path) -> None:
    (tmp_path / "july" / "raw").mkdir(parents=True)
    for number in range(101):  # a browser lists a folder a hundred entries at a time
        (tmp_path / "july" / "raw" / f"{number:03}.txt").write_text("x" * number)
    (tmp_path / "july" / "read me.txt").write_text("read me")
    page = folder(visit, branch)
    box = page.locator(".drop").bounding_box()
    assert box is not None
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(tmp_path / "july")], "dragOperationsMask": 1}
    point = {"x": box["x"] + 50, "y": box["y"] + 20, "data": data}
    session.send("Input.dispatchDragEvent", {"type": "dragEnter", **point})
    session.send("Input.dispatchDragEvent", {"type": "dragOver", **point})
    page.locator(".drop.ready").wait_for()  # the page takes files here
    session.send("Input.dispatchDragEvent", {"type": "drop", **point})
    expect(uploads(page)).to_contain_text("102 of 102 uploaded")
    page.get_by_role("link", name="july/").click()
    page.get_by_role("link", name="read me.txt").wait_for()
    listing = visit.call("GET", f"/repositories/sales/refs/{branch}/objects/ls?prefix=inbox/july/raw/&amount=1000")
    assert [entry["size_bytes"] for entry in listing["results"]] == list(range(101))


def test_a_cancelled_upload_leaves_nothing(visit: Visit, branch: str) -> None:
    page = folder(visit, branch)
    page.route(BYTES, lambda _: None)  # the bytes stay on their way
    with page.expect_request(BYTES):
        chooser(page).set_input_files(text("long.txt", b"x" * 1000))
    expect(uploads(page)).to_contain_text("0 of 1 uploaded")
    expect(uploads(page).get_by_role("progressbar", name="Sent")).to_be_visible()
    with page.expect_event("requestfailed", lambda request: BYTES.search(request.url) is not None):
        uploads(page).get_by_role("button", name="Cancel").click()
    expect(uploads(page)).to_contain_text("0 of 0 uploaded")
    uploads(page).get_by_role("button", name="Close").click()
    expect(uploads(page)).to_have_count(0)
    assert staged(visit, branch) == {}


def test_a_failed_upload_is_tried_again(visit: Visit, branch: str) -> None:
    page = folder(visit, branch)
    page.route(BYTES, lambda route: route.abort(), times=1)
    chooser(page).set_input_files([text("one.txt"), text("two.txt")])
    expect(uploads(page)).to_contain_text("1 of 2 uploaded")
    expect(uploads(page)).to_contain_text("1 failed")
    expect(uploads(page)).to_contain_text("does not answer. Is the server still running?")
    uploads(page).get_by_role("button", name="Try again").click()
    expect(uploads(page)).to_contain_text("2 of 2 uploaded")
    assert staged(visit, branch) == {"inbox/one.txt": 1, "inbox/two.txt": 1}


def test_a_large_file_is_sent_in_parts(visit: Visit, branch: str, tmp_path: Path) -> None:
    contents = bytes(range(256)) * (PART // 256) + b"and the rest"
    (tmp_path / "large.bin").write_bytes(contents)
    page = folder(visit, branch)
    parts: list[Request] = []
    page.on("request", lambda request: parts.append(request) if BYTES.search(request.url) else None)
    chooser(page).set_input_files(tmp_path / "large.bin")
    page.get_by_role("link", name="large.bin").wait_for()
    assert len(parts) == 2
    address = f"/api/v1/repositories/sales/refs/{branch}/objects?path=inbox/large.bin"
    assert page.context.request.get(visit.origin + address).body() == contents


def test_a_large_file_that_is_cancelled_drops_its_parts(visit: Visit, branch: str, tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(b"x" * (2 * PART + 1))
    page = folder(visit, branch)

    def hold_the_last(route: Route) -> None:
        if len(route.request.post_data_buffer or b"") > 1:
            route.continue_()

    page.route(BYTES, hold_the_last)
    with page.expect_request(re.compile("/staging/pmpu")) as begun:
        chooser(page).set_input_files(tmp_path / "large.bin")
    answer = begun.value.response()
    assert answer is not None
    upload = json.loads(answer.text())["upload_id"]
    progress = uploads(page).get_by_role("progressbar", name="Sent")
    expect(progress).to_have_js_property("value", 2 * PART)
    with page.expect_request(lambda request: request.method == "DELETE" and upload in request.url) as dropped:
        uploads(page).get_by_role("button", name="Cancel").click()
    response = dropped.value.response()
    assert response is not None
    assert response.status == 204
    assert staged(visit, branch) == {}


def test_a_protected_branch_offers_another_one(visit: Visit) -> None:
    page = visit.go("/repositories/sales/objects?ref=release-1&path=inbox/")
    page.get_by_role("button", name="Upload").click()
    expect(page.locator("main")).to_contain_text("a branch that is not protected")
    page.get_by_label("Name of the branch").fill("release-1")
    page.get_by_role("button", name="Make the branch").click()
    expect(page.get_by_role("alert")).to_contain_text("already exists")
    page.get_by_label("Name of the branch").fill("beside-the-release")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Ref: beside-the-release").wait_for()
    chooser(page).set_input_files(text("one.txt"))
    page.get_by_role("link", name="one.txt").wait_for()
    assert staged(visit, "beside-the-release") == {"inbox/one.txt": 1}
    assert visit.call("GET", "/repositories/sales/refs/release-1/objects/ls?prefix=inbox/")["results"] == []
