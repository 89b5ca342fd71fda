"""What is done with commits, refs and changes: cherry-picks, reverts, new branches, counts and narrowing."""

import re

import pytest
from playwright.sync_api import expect

from tests.web.conftest import Visit


@pytest.fixture
def branch(request: pytest.FixtureRequest, visit: Visit) -> str:
    """A branch of this test, at ``main`` of ``sales``."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    visit.call("POST", "/repositories/sales/branches", {"name": name, "source": "main"})
    return name


def head(visit: Visit, ref: str) -> str:
    return str(visit.call("GET", f"/repositories/sales/refs/{ref}")["commit_id"])


def write(visit: Visit, branch: str, path: str, contents: bytes) -> None:
    answer = visit.site.ask("POST", f"/api/v1/repositories/sales/branches/{branch}/objects?path={path}", contents)
    assert answer.status == 201, answer.body


def commit(visit: Visit, branch: str, message: str) -> str:
    return str(visit.call("POST", f"/repositories/sales/branches/{branch}/commits", {"message": message})["id"])


def read(visit: Visit, ref: str, path: str) -> bytes:
    return visit.site.ask("GET", f"/api/v1/repositories/sales/refs/{ref}/objects?path={path}").body


def test_a_commit_is_picked_onto_a_branch(visit: Visit, branch: str) -> None:
    page = visit.go("/repositories/sales/commits?ref=fix")
    page.get_by_role("link", name="Correct the schema").click()
    page.get_by_role("button", name="Cherry-pick").click()
    page.get_by_label("Branch", exact=True).fill(branch)
    page.get_by_label("Message").fill("Correct the schema here, too")
    page.get_by_role("button", name=f"Cherry-pick onto {branch}").click()
    page.get_by_role("heading", name="Correct the schema here, too").wait_for()
    page.get_by_role("button", name=f"Ref: {branch}").wait_for()
    expect(page).to_have_url(re.compile(head(visit, branch)))
    assert read(visit, branch, "events/_schema.json") == b'{"id": "int64"}\n'
    page.get_by_text("cherry-pick-origin").wait_for()
    page.get_by_role("link", name=head(visit, "fix")[:7]).click()
    page.get_by_role("heading", name="Correct the schema", exact=True).wait_for()


def test_a_pick_that_meets_a_conflict_says_so_and_takes_a_side(visit: Visit, branch: str) -> None:
    before = head(visit, branch)
    page = visit.go(f"/repositories/sales/commits/{head(visit, 'fix~1')}?ref=fix")
    page.get_by_role("button", name="Cherry-pick").click()
    page.get_by_label("Branch", exact=True).fill(branch)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("1 conflict ('prices.csv'); nothing was changed")
    assert head(visit, branch) == before
    page.get_by_label("Both changed the same objects").select_option("take what is in the commit")
    page.get_by_role("button", name=f"Cherry-pick onto {branch}").click()
    page.get_by_text("cherry-pick-origin").wait_for()
    assert b"2,250" in read(visit, branch, "prices.csv")


def test_of_a_merge_the_changes_since_one_parent_are_picked(visit: Visit, branch: str) -> None:
    visit.call("POST", "/repositories/sales/branches", {"name": f"{branch}-side", "source": "main"})
    write(visit, f"{branch}-side", "side.txt", b"side")
    commit(visit, f"{branch}-side", "Side")
    visit.call("POST", "/repositories/sales/branches", {"name": f"{branch}-into", "source": "main"})
    write(visit, f"{branch}-into", "into.txt", b"into")
    commit(visit, f"{branch}-into", "Into")
    visit.call("POST", f"/repositories/sales/refs/{branch}-side/merge/{branch}-into", {"message": "Merge them"})
    page = visit.go(f"/repositories/sales/commits/{head(visit, branch + '-into')}")
    page.get_by_role("button", name="Cherry-pick").click()
    page.get_by_label("Branch", exact=True).fill(branch)
    page.get_by_label("A merge: apply its changes since").select_option(index=1)
    page.get_by_role("button", name=f"Cherry-pick onto {branch}").click()
    page.get_by_text("cherry-pick-origin").wait_for()
    assert read(visit, branch, "into.txt") == b"into"
    assert visit.site.ask("GET", f"/api/v1/repositories/sales/refs/{branch}/objects?path=side.txt").status == 404


def test_selected_commits_are_taken_back(visit: Visit, branch: str) -> None:
    for name in ("one", "two", "three"):
        write(visit, branch, f"notes/{name}.txt", name.encode())
        commit(visit, branch, f"Note {name}")
    page = visit.go(f"/repositories/sales/commits?ref={branch}&path=notes/")
    expect(page.locator("tbody tr")).to_have_count(3)
    for row in (0, 2):
        page.locator("tbody input[type=checkbox]").nth(row).check()
    page.get_by_role("link", name="Revert 2 selected").click()
    page.get_by_role("button", name=f"Revert 2 commits on {branch}").click()
    page.get_by_role("link", name="Revert").first.wait_for()
    objects = visit.call("GET", f"/repositories/sales/refs/{branch}/objects/ls?prefix=notes/")["results"]
    assert [entry["path"] for entry in objects] == ["notes/two.txt"]


def test_a_revert_that_meets_a_conflict_takes_a_side(visit: Visit, branch: str) -> None:
    write(visit, branch, "prices.csv", b"id,price\n1,1\n")
    first = commit(visit, branch, "Reduce")
    write(visit, branch, "prices.csv", b"id,price\n1,2\n")
    commit(visit, branch, "Raise")
    page = visit.go(f"/repositories/sales/branches/{branch}/revert?commits={first}")
    page.get_by_role("button", name="Revert 1 commit").click()
    expect(page.get_by_role("alert")).to_contain_text("conflict")
    page.get_by_label("Both changed the same objects").select_option("take what was there before the commit")
    page.get_by_role("button", name="Revert 1 commit").click()
    page.get_by_role("heading", name="History").wait_for()
    assert b"4,400" in read(visit, branch, "prices.csv")


@pytest.mark.parametrize(
    ("screen", "name"),
    [
        ("objects?ref=fix&path=events/", "begun-in-a-folder"),
        ("commits?ref=fix", "begun-in-the-log"),
        ("commits/fix?ref=main", "begun-at-a-commit"),
    ],
)
def test_a_branch_begins_where_one_is(visit: Visit, screen: str, name: str) -> None:
    page = visit.go(f"/repositories/sales/{screen}")
    page.get_by_role("button", name="Branch from here").click()
    page.get_by_label("Name", exact=True).fill("main")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("already exists")
    page.get_by_label("Name", exact=True).fill(name)
    page.keyboard.press("Enter")
    page.get_by_role("button", name=f"Ref: {name}").wait_for()
    assert head(visit, name) == head(visit, "fix")


def test_the_section_of_changes_counts_them(visit: Visit, branch: str) -> None:
    page = visit.go(f"/repositories/sales/objects?ref={branch}")
    changes = page.get_by_role("navigation", name="Sections").get_by_role("link", name="Changes")
    expect(changes).to_have_text("Changes")
    for number in range(3):
        write(visit, branch, f"notes/{number}.txt", b"x")
    visit.go(f"/repositories/sales/objects?ref={branch}")
    expect(changes).to_have_text("Changes3")
    page = visit.go(f"/repositories/sales/uncommitted?ref={branch}")
    page.get_by_label("Message").fill("Take notes")
    page.get_by_role("button", name=f"Commit to {branch}").click()
    page.get_by_role("heading", name="Take notes").wait_for()
    expect(changes).to_have_text("Changes")


def test_a_change_is_narrowed_to_the_beginning_of_paths(visit: Visit) -> None:
    page = visit.go("/repositories/sales/compare?ref=v1&compare=main&mode=two")
    field = page.get_by_label("Only paths that begin with")
    field.fill("events/day=2026-11-03/part-000")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("prefix=events"))
    expect(page.locator("main")).to_contain_text("objects added")
    expect(page.get_by_role("link", name="prices.csv")).to_have_count(0)
    page.get_by_role("button", name="Show everything").click()
    page.get_by_role("link", name="prices.csv").wait_for()


def test_a_decision_for_an_object_decides_no_other(visit: Visit, branch: str) -> None:
    paths = ("notes", "notes.txt", "notes/a.txt")
    other = f"{branch}-other"
    visit.call("POST", "/repositories/sales/branches", {"name": other, "source": branch})
    for name in (branch, other):
        for path in paths:
            write(visit, name, path, f"{path} of {name}".encode())
        commit(visit, name, "Take notes")
    page = visit.go(f"/repositories/sales/compare?ref={branch}&compare={other}")
    page.get_by_role("group", name="All conflicts").get_by_label(f"keep {branch}").check()
    page.get_by_role("group", name="notes", exact=True).get_by_label(f"take {other}").check()
    expect(page.get_by_role("group", name="notes.txt").get_by_label(f"keep {branch}")).to_be_checked()
    page.get_by_role("button", name=f"Merge into {branch}").click()
    page.get_by_role("heading", name="Merge").wait_for()
    assert [read(visit, branch, path) for path in paths] == [
        f"notes of {other}".encode(),
        f"notes.txt of {branch}".encode(),
        f"notes/a.txt of {branch}".encode(),
    ]


def test_the_log_is_narrowed_to_the_last_hours(visit: Visit) -> None:
    page = visit.go("/repositories/sales/commits?ref=main&since=8h")
    page.get_by_role("link", name="Load prices").wait_for()
    expect(page.locator("tbody tr")).not_to_have_count(19)
    expect(page.get_by_label("Since")).to_have_value("8h")
    expect(page.get_by_role("link", name="Load hour 3")).to_have_count(0)
