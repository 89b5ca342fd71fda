"""The configuration file: what is read and written, who may read it, and that secrets are shown nowhere."""

import os
import pickle
import stat
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import ForbiddenError, GravelerError, InvalidError, NotFoundError, UnavailableError
from graveler.location.configuration import (
    CONFIG,
    KEYS,
    PROFILE,
    LakeDefault,
    Profile,
    change_lake_default,
    change_profile,
    change_user,
    configuration_file,
    find_profile,
    profile_names,
)
from tests.support.patience import PATIENCE
from tests.support.shell import Shell

SECRET = "SECRET-of-the-profile"


@pytest.fixture(autouse=True)
def file(shell: Shell, tmp_path: Path) -> Path:
    """Where the configuration file of the test would be."""
    shell.unset(CONFIG, PROFILE)
    shell.export("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration/graveler/config.toml"


def written(file: Path, text: str, mode: int = 0o600) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def test_where_the_file_is(shell: Shell, file: Path) -> None:
    assert configuration_file() == file
    shell.export("XDG_CONFIG_HOME", "relative")
    shell.export("HOME", "/home/ann")
    assert configuration_file() == Path("/home/ann/.config/graveler/config.toml")
    shell.export(CONFIG, "~/mine.toml")
    assert configuration_file() == Path("/home/ann/mine.toml")


def test_without_a_file_there_is_no_profile(file: Path) -> None:
    assert (find_profile(), profile_names()) == (None, [])
    assert not file.parent.exists(), "reading makes nothing"


def test_a_user_without_a_home_has_no_profile(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    def none() -> Path:
        raise RuntimeError

    shell.unset("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "home", none)
    assert find_profile() is None
    with pytest.raises(NotFoundError, match="no home folder; set GRAVELER_CONFIG"):
        find_profile("work")
    with pytest.raises(UnavailableError, match=r"no home folder .* set GRAVELER_CONFIG"):
        change_profile("default", {"repository": "sales"})


def test_the_profile_is_named_by_argument_then_variable_then_default(shell: Shell, file: Path) -> None:
    written(file, "".join(f'[profiles.{name}]\nrepository = "of-{name}"\n' for name in ("default", "one", "two")))

    def repository(name: str | None = None) -> str:
        found = find_profile(name)
        assert found is not None
        return found.repository

    assert repository() == "of-default"
    shell.export(PROFILE, "one")
    assert repository() == "of-one"
    assert repository("two") == "of-two"
    assert profile_names() == ["default", "one", "two"]


def test_what_is_written_is_for_its_owner_alone(file: Path) -> None:
    old = os.umask(0)
    try:
        assert change_profile("default", {"secret_key": SECRET}) == file
    finally:
        os.umask(old)
    assert {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in file.parent.iterdir()) == [".config.toml.lock", "config.toml"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_a_secret_that_others_can_read_is_refused_and_the_sentence_says_what_to_do(file: Path, mode: int) -> None:
    written(file, f'[profiles.other]\nsecret_key = "{SECRET}"\n', mode)
    with pytest.raises(ForbiddenError, match=r"chmod 600 .*config\.toml") as refused:
        find_profile()
    assert SECRET not in str(refused.value)
    change_profile("other", {"branch": None})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert find_profile("other") == Profile(name="other", secret_key=SECRET)


def test_a_file_without_a_secret_may_be_read_by_others(file: Path) -> None:
    written(file, '[profiles.default]\nrepository = "sales"\n', 0o644)
    assert find_profile() == Profile(name="default", repository="sales")


WRONG: Mapping[str, tuple[str, str]] = {
    "no TOML": (f'[profiles.default]\nsecret_key = "{SECRET}\n', r", line 2: this is not valid TOML; correct the line"),
    "no end": ("[profiles.default", r"at its end: this is not valid TOML|line 1: this is not valid TOML"),
    "a key that is not known": (
        f'# mine\n[profiles.default]\nsecret_kay = "{SECRET}"\n',
        r", line 3: profile 'default' has the key 'secret_kay', which is not known; did you mean 'secret_key'\?",
    ),
    "a key like no other": (
        '[profiles.default]\nzzz = "1"\n',
        r", line 2: .*'zzz', which is not known; known are endpoint, lake,",
    ),
    "a dotted key": ('[profiles]\ndefault.zzz = "1"\n', r", line 2: profile 'default' has the key 'zzz'"),
    "a table that is not known": ('x = 1\n[profile.default]\nlake = "/"\n', r", line 1: 'x' is not known"),
    "a misspelt table": ('[profile.default]\nlake = "/"\n', r", line 1: 'profile' is not known; .*\[profiles\.NAME\]"),
    "a number": ("[profiles.default]\n\nrepository = 1\n", r", line 3: 'repository' of profile 'default' is no text"),
    "profiles as a number": ("profiles = 1\n", r", line 1: 'profiles' is no table"),
    "a profile as a text": (f'[profiles]\ndefault = "{SECRET}"\n', r", line 2: profile 'default' is no table"),
    "two lakes": (
        '[profiles.default]\nendpoint = "https://a"\nlake = "/b"\n',
        r", line 3: .* both 'endpoint' and 'lake'",
    ),
    "no URL": ('[profiles.default]\nendpoint = "a.example.org"\n', r", line 2: 'endpoint' .* is not a server's URL"),
    "a relative folder": ('[profiles.default]\nlake = "data"\n', r", line 2: 'lake' .* neither an absolute folder nor"),
    "a branch of nothing": ('[profiles.default]\nbranch = "main"\n', r", line 2: .* a branch, but no repository"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_with_file_and_line_and_without_values(file: Path, what: str) -> None:
    text, told = WRONG[what]
    written(file, text)
    with pytest.raises(InvalidError, match=told) as refused:
        find_profile()
    assert str(refused.value).startswith(repr(str(file)))
    assert SECRET not in str(refused.value)


def test_bytes_that_are_no_text_are_told(file: Path) -> None:
    written(file, "").write_bytes(b"\xff")
    with pytest.raises(InvalidError, match="is not UTF-8"):
        find_profile()


def test_a_profile_that_is_not_there_is_told_with_those_that_are(shell: Shell, file: Path) -> None:
    with pytest.raises(NotFoundError, match=r"the profile 'work' is not in .*config.toml'\. `graveler login"):
        find_profile("work")
    written(file, "[profiles.home]\n[profiles.office]\n")
    shell.export(PROFILE, "work")
    with pytest.raises(
        NotFoundError, match=r"GRAVELER_PROFILE names the profile 'work', .*; there are 'home', 'office'"
    ):
        find_profile()


def test_a_file_that_cannot_be_read_matters_only_to_who_names_a_profile(file: Path) -> None:
    file.mkdir(parents=True)
    assert find_profile() is None
    with pytest.raises(UnavailableError, match=r"cannot read the configuration file .*: Is a directory"):
        find_profile("default")


MINE = f"""# Of mine.
colour = "blue"   # of another program

[profiles.prod]   # the one
endpoint = "https://lake.example.org"   # by hand
secret_key = '{SECRET}'
zzz = 1

[other]
list = [1,
  2]
"""


def test_what_others_wrote_stays(file: Path) -> None:
    written(file, MINE)
    change_profile("prod", {"repository": "sales"})
    change_profile("prod", {"secret_key": None})
    change_profile("home", {"lake": "/data"})
    text = file.read_text()
    kept = [line for line in MINE.splitlines() if SECRET not in line]
    assert [line for line in text.splitlines() if line in kept and line] == [line for line in kept if line]
    document = tomllib.loads(text)
    assert document["profiles"]["prod"] == {"endpoint": "https://lake.example.org", "zzz": 1, "repository": "sales"}
    assert document["profiles"]["home"] == {"lake": "/data"}
    assert SECRET not in text


@pytest.mark.parametrize(
    "text",
    [
        'profiles.default.lake = "/a"\n',
        '[profiles]\ndefault = {lake = "/a"}\n[other]\n',
        '[profiles.default]\nlake = "/a"\n\n[other]\n\n[profiles.b]\nlake = "/b"\n',
        '[profiles.b]\n\n[other]\n\n[profiles.default]\nlake = "/a"\n',
    ],
)
def test_a_file_in_any_form_is_changed_without_loss(file: Path, text: str) -> None:
    document = tomllib.loads(written(file, text).read_text())
    change_profile("default", {"repository": "sales"})
    change_profile("new", {"repository": "sales"})
    document["profiles"]["default"]["repository"] = "sales"
    document["profiles"]["new"] = {"repository": "sales"}
    assert tomllib.loads(file.read_text()) == document


def test_a_form_to_which_nothing_can_be_added_is_told(file: Path) -> None:
    text = '# mine\nprofiles = {default = {lake = "/a"}}\n'
    written(file, text)
    with pytest.raises(InvalidError, match=r"line 2: profile 'new' cannot be changed in the form .*\[profiles\.NAME\]"):
        change_profile("new", {"repository": "sales"})
    assert file.read_text() == text
    change_profile("default", {"repository": "sales"})
    assert find_profile() == Profile(name="default", lake="/a", repository="sales")


def test_a_file_that_is_no_configuration_is_not_overwritten(file: Path) -> None:
    for text in ("no TOML", "profiles = 1\n", "[profiles]\ndefault = 1\n"):
        written(file, text)
        with pytest.raises(InvalidError):
            change_profile("default", {"repository": "sales"})
        assert file.read_text() == text


def test_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    real = written(tmp_path / "dotfiles/graveler.toml", "# mine\n")
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    change_profile("default", {"repository": "sales"})
    assert file.is_symlink()
    assert real.read_text().startswith("# mine\n")
    assert 'repository = "sales"' in real.read_text()


def test_a_device_or_a_pipe_in_its_place_stays(tmp_path: Path, shell: Shell) -> None:
    """As with GRAVELER_CONFIG=/dev/null, which a file would replace if root may."""
    os.mkfifo(tmp_path / "null")
    shell.export("GRAVELER_CONFIG", str(tmp_path / "null"))
    changes = (
        lambda: change_profile("default", {"repository": "sales"}),
        lambda: change_user("Ada"),
        lambda: change_lake_default("lake", LakeDefault("sales")),
    )
    for change in changes:
        with pytest.raises(InvalidError, match="is no regular file, so nothing is written to it"):
            change()
    assert [path.name for path in tmp_path.iterdir() if not path.is_fifo()] == []


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "a\n", "x" * 65, "é"])
def test_a_name_that_no_profile_should_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidError, match="is not a valid name of a profile"):
        change_profile(name, {"repository": "sales"})


def test_a_folder_that_cannot_be_made_is_told(file: Path) -> None:
    file.parent.parent.write_text("a file where the folder would be")
    with pytest.raises(UnavailableError, match=r"writing the configuration file .* failed: Not a directory"):
        change_profile("default", {"repository": "sales"})


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,20}", fullmatch=True)
values = st.text(st.characters(codec="utf-8"), min_size=1)
free = [key for key in KEYS if key not in ("endpoint", "lake", "branch", "repository")]
chosen_values = st.fixed_dictionaries(
    {},
    optional={**dict.fromkeys(free, values), "endpoint": values.map("https://".__add__), "repository": values},
)


@settings(max_examples=30)  # each writes a file several times, and waits for the disk
@given(profiles=st.dictionaries(names, chosen_values, max_size=4))
def test_what_is_written_is_read(profiles: dict[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONFIG, str(tmp_path_factory.mktemp("written") / "config.toml"))
        for name, chosen in profiles.items():
            change_profile(name, chosen)
        assert profile_names() == sorted(profiles)
        for name, chosen in profiles.items():
            assert find_profile(name) == Profile(name=name, **chosen)
        for name, chosen in profiles.items():
            change_profile(name, dict.fromkeys(chosen))
            assert find_profile(name) == Profile(name=name)


_MANY = """
import sys
from graveler.location.configuration import change_profile
sys.stdin.readline()  # all begin together
for number in range(20):
    change_profile(f"{sys.argv[1]}-{number}", {"repository": sys.argv[1]})
    change_profile("shared", {sys.argv[2]: str(number)})
"""


def test_processes_that_write_at_once_lose_nothing(file: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _MANY, name, key], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for name, key in (("one", "key_id"), ("two", "secret_key"), ("three", "objects"))
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=PATIENCE)
        assert writer.returncode == 0, errors
    expected = {f"{name}-{number}" for name in ("one", "two", "three") for number in range(20)} | {"shared"}
    assert set(profile_names()) == expected
    assert find_profile("shared") == Profile(name="shared", key_id="19", secret_key="19", objects="19")


def test_no_secret_in_a_repr_or_the_pickle_of_an_error(file: Path) -> None:
    written(file, f'[profiles.default]\nsecret_key = "{SECRET}"\n')
    assert SECRET not in repr(find_profile())
    written(file, f'[profiles.default]\nsecret_key = "{SECRET}"\nzzz = "{SECRET}"\n')
    with pytest.raises(GravelerError) as refused:
        find_profile()
    assert SECRET.encode() not in pickle.dumps(refused.value)
