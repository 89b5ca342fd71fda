"""repo metadata, protect, unprotect, import-sources, read-only: their output, changes and refusals."""

from pathlib import Path

from tests.cli.support import done, put, run


def test_metadata_is_shown_set_and_unset(lake: Path) -> None:
    assert done("repo", "metadata", "lake").out == ""
    assert done("repo", "metadata", "lake", "--set", "b=2", "--set", "a=1=1", "--json").json == {"a": "1=1", "b": "2"}
    assert done("repo", "metadata", "lakefs://lake").out == "a=1=1\nb=2\n"
    assert done("repo", "metadata", "lake", "--unset", "a", "--set", "c=3", "--json").json == {"b": "2", "c": "3"}
    assert "meta b:" in done("repo", "show", "lake").out
    for wrong in (["--set", "a"], ["--set", "a=1", "--set", "a=2"], ["--set", "a=1", "--unset", "a"]):
        refused = run("repo", "metadata", "lake", *wrong)
        assert (refused.code, "a" in refused.err) == (2, True)
    assert done("repo", "create", "noted", "--meta", "k=v", "--json").json["metadata"] == {"k": "v"}


def test_a_protected_branch_takes_merges_alone(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    put("dev", "x", "1")
    done("commit", "lakefs://lake/dev", "-m", "One")
    assert done("repo", "protect", "lake", "ma*", "release-?", "--json").json == {"protected": ["ma*", "release-?"]}
    assert done("repo", "protect", "lake").out == "ma*\nrelease-?\n"
    assert "protected:" in done("repo", "show", "lake").out
    refused = run("put", "-", "lakefs://lake/main/y", stdin=b"1")
    assert (refused.code, "'main' is protected" in refused.err) == (6, True)
    assert run("commit", "lakefs://lake/main", "-m", "No").code == 6
    done("merge", "lakefs://lake/dev", "lakefs://lake/main")
    assert done("repo", "unprotect", "lake", "ma*", "--json").json == {"protected": ["release-?"]}
    done("put", "-", "lakefs://lake/main/y", stdin=b"1")
    assert run("repo", "unprotect", "lake", "ma*").code == 3
    assert run("repo", "protect", "lake", "a/b").code == 2


def test_a_read_only_repository_refuses_changes(lake: Path) -> None:
    assert done("repo", "read-only", "lake", "on", "--json").json == {"name": "lake", "read_only": True}
    refused = run("put", "-", "lakefs://lake/main/y", stdin=b"1")
    assert (refused.code, "'lake' is read-only" in refused.err) == (6, True)
    assert run("branch", "create", "lakefs://lake/dev").code == 6
    assert run("repo", "metadata", "lake", "--set", "a=1").code == 6
    done("repo", "metadata", "lake", "--set", "a=1", "--force")
    assert run("repo", "delete", "lake", "--yes").code == 6
    assert "read-only:" in done("repo", "show", "lake").out
    assert "now writable" in done("repo", "read-only", "lake", "off").out
    done("branch", "create", "lakefs://lake/dev")
    assert run("repo", "read-only", "lake", "maybe").code == 2
    done("repo", "create", "frozen", "--read-only")
    done("repo", "delete", "frozen", "--yes", "--force")


def test_import_sources_are_shown_narrowed_and_widened(lake: Path) -> None:
    assert done("repo", "import-sources", "lake", "--json").json == {"import_sources": None}
    assert done("repo", "import-sources", "lake", "file:///a/", "s3://b/c").out == "file:///a/\ns3://b/c\n"
    assert done("repo", "import-sources", "lake", "--json").json == {"import_sources": ["file:///a/", "s3://b/c"]}
    assert done("repo", "import-sources", "lake", "--nowhere", "--json").json == {"import_sources": []}
    assert "no address" in done("repo", "import-sources", "lake").out
    assert "any address" in done("repo", "import-sources", "lake", "--anywhere").out
    for wrong in (["a"], ["file:///a/../b/"], ["file:///a/", "--anywhere"]):
        assert run("repo", "import-sources", "lake", *wrong).code == 2
