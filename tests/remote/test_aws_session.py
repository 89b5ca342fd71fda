"""Logging in with AWS's credentials, from the command line and Python, to a server that asks an STS that checks signatures."""

import json
from collections.abc import Iterator

import msgspec
import pytest

import graveler
from graveler.access.aws_login import AwsLogin
from graveler.access.permissions import Role
from graveler.errors import ForbiddenError, InvalidError
from graveler.location.environment import Named, ServedLake, find_lake
from graveler.remote.aws_session import SECONDS, AwsSession
from graveler.remote.aws_signing import BotocoreSigner
from graveler.remote.connection import Connection
from graveler.remote.lake import RemoteLake
from tests.access.support import HandClock
from tests.api.over_http import HOST, serving
from tests.api.support import World, make_world
from tests.cli.support import done, run
from tests.support.shell import Shell
from tests.support.sts import ACCOUNT, FakeSts, role

ETL = role("etl-nightly")
PATTERN = f"arn:aws:iam::{ACCOUNT}:role/etl-*"


class At(msgspec.Struct, frozen=True):
    """Where the server is, what is behind it, and whom it asks."""

    url: str
    world: World
    sts: FakeSts


@pytest.fixture(scope="module")
def at() -> Iterator[At]:
    with FakeSts() as sts, serving() as switch:
        sts.knows(ETL)
        world = make_world(aws=AwsLogin(("lake.example.org", HOST), sts.client()))
        world.lake.create_repository("repo", "local://repo")
        switch.application = world.application
        yield At(f"http://{HOST}:{switch.port}", world, sts)


@pytest.fixture(autouse=True)
def rule(at: At, shell: Shell) -> Iterator[str]:
    """A rule for the role, whose credentials are in the environment."""
    for name, value in {**ETL.environment, "AWS_DEFAULT_REGION": "eu-west-1", "GRAVELER_ENDPOINT": at.url}.items():
        shell.export(name, value)
    made = at.world.access.create_rule(PATTERN, "{session}", Role.ADMIN)
    at.sts.asked.clear()
    yield made.rule_id
    for each in at.world.access.rules():
        at.world.access.remove_rule(each.rule_id)


def test_python_opens_a_lake_with_a_role(at: At) -> None:
    with graveler.open(at.url, login="aws") as lake:
        assert [repository.id for repository in lake.repositories()] == ["repo"]
        lake.repository("repo").branch("dev").create("main")
    assert [asked.host for asked in at.sts.asked] == [
        "sts.eu-west-1.amazonaws.com"
    ] * 2  # one name of the server, then the other


def test_a_command_logs_in_by_itself(at: At, shell: Shell) -> None:
    assert done("--login", "aws", "repo", "list", "--json").json["name"] == "repo"
    shell.export("GRAVELER_LOGIN", "aws")
    shell.export("GRAVELER_SERVER_NAME", "lake.example.org")
    at.sts.asked.clear()
    assert done("repo", "list", "--json").json["name"] == "repo"
    assert [asked.headers["x-lakefs-server-id"] for asked in at.sts.asked] == ["lake.example.org"]


def test_login_shows_a_token_that_other_commands_take(at: At, shell: Shell) -> None:
    said = done("login", "--aws", "--json").json
    assert (said["endpoint"], said["name"]) == (at.url, "i-0123")
    shown = done("login", "--aws").out.splitlines()
    assert shown[0].startswith(f"# logged in to {at.url} as i-0123, until ")
    assert [line.partition("=")[0] for line in shown[1:]] == [
        "export GRAVELER_SESSION_TOKEN",
        "export LAKECTL_CREDENTIALS_SESSION_TOKEN",
    ]
    shell.export("GRAVELER_SESSION_TOKEN", said["token"])
    at.sts.asked.clear()
    assert done("repo", "list", "--json").json["name"] == "repo"
    assert at.sts.asked == []


def test_who_has_no_rule_or_says_no_way_is_told(rule: str, at: At) -> None:
    at.world.access.remove_rule(rule)
    refused = run("--login", "aws", "repo", "list")
    assert (refused.code, refused.err) == (6, "error: no rule lets AWS principals in; ask an admin to create one\n")
    assert run("login").code == run("--login", "kerberos", "repo", "list").code == 2
    assert run("--lake", ".", "--login", "aws", "repo", "list").code == 2


def session(at: At, clock: HandClock) -> AwsSession:
    return AwsSession(Connection(at.url, "", ""), HOST, BotocoreSigner(), clock)


def test_a_token_is_renewed_before_it_ends(at: At) -> None:
    clock = HandClock()
    keeping = session(at, clock)
    first = keeping.authorization()
    clock.now += SECONDS - 301
    assert keeping.authorization() == first
    clock.now += 1
    assert keeping.authorization() != first


def test_a_token_that_ended_before_its_time_is_renewed_once(at: At, rule: str) -> None:
    keeping = session(at, HandClock())
    lake = RemoteLake(Connection(at.url, "", "", session=keeping))
    assert lake.user == "i-0123"
    before = keeping.authorization()
    at.world.access.remove_rule(rule)  # ends the token
    at.world.access.create_rule(PATTERN, "again", Role.READER)
    assert lake.user == "again"
    assert keeping.authorization() != before
    asked = len(at.sts.asked)
    with pytest.raises(ForbiddenError, match=r"\(a reader\) may not administer the lake"):  # no reason to log in again
        Connection(at.url, "", "", session=keeping).call("GET", ("auth", "keys"))
    assert len(at.sts.asked) == asked


def test_a_token_of_somebody_else_is_not_renewed(at: At, shell: Shell) -> None:
    shell.export("GRAVELER_SESSION_TOKEN", "x.y.z")
    with graveler.open(at.url) as lake, pytest.raises(ForbiddenError, match="error authenticating request"):
        list(lake.repositories())
    assert at.sts.asked == []


def test_what_is_said_outright_counts_before_the_environment(at: At, shell: Shell) -> None:
    def found(**said: object) -> tuple[str, bool, str]:
        place = find_lake(msgspec.structs.replace(Said(), **said).named())
        assert isinstance(place, ServedLake)
        return place.key_id, place.by_aws, place.token

    shell.export("GRAVELER_ACCESS_KEY_ID", "AKIA")
    shell.export("GRAVELER_SECRET_ACCESS_KEY", "secret")
    assert found() == ("AKIA", False, "")
    shell.export("GRAVELER_SESSION_TOKEN", "token")
    assert found() == ("", False, "token")
    shell.export("GRAVELER_LOGIN", "aws")
    assert found() == ("", True, "")
    assert found(key=("ID", "secret")) == ("ID", False, "")
    assert found(login="aws", key=("ID", "secret")) == ("", True, "")


class Said(msgspec.Struct, frozen=True):
    """What somebody says."""

    key: tuple[str, str] | None = None
    login: str | None = None

    def named(self) -> Named:
        return Named(key=self.key, login=self.login)


def test_a_lake_of_ones_own_takes_no_login() -> None:
    with pytest.raises(InvalidError, match="behind a server"):
        find_lake(Named(lake=".", login="aws"))


def test_without_credentials_one_is_told(at: At, shell: Shell) -> None:
    for name in ETL.environment:
        shell.unset(name)
    shell.export("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        shell.export(name, "/nowhere")
    with pytest.raises(ForbiddenError, match="no AWS credentials"):
        BotocoreSigner().sign("x")
    shell.export("AWS_PROFILE", "nobodys")
    with pytest.raises(ForbiddenError, match="nobodys"):
        BotocoreSigner().sign("x")


def test_no_secret_is_shown(at: At) -> None:
    place = ServedLake(url=at.url, token="token-of-mine")
    said = done("login", "--aws", "--json").json
    shown = repr(place) + repr(session(at, HandClock()).log_in())
    assert "token-of-mine" not in shown
    assert said["token"].rpartition(".")[2] not in json.dumps(shown)
