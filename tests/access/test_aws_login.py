"""Logging in by AWS, against an STS that checks signatures: the right caller is believed, and every imitation is refused."""

import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import msgspec
import pytest

from graveler.access import failure_limits, sts
from graveler.access.authentication import MAX_AWS_SECONDS, Access
from graveler.access.aws_login import AwsLogin
from graveler.access.aws_principals import read_principal
from graveler.access.identity_tokens import MAX_AHEAD
from graveler.access.permissions import Role
from graveler.access.refusals import (
    AuthenticationError,
    IdentityRefusedError,
    PrincipalRuleNotFoundError,
    TooManyFailuresError,
)
from graveler.access.verified import KEEP
from graveler.errors import AlreadyExistsError, BusyError, CorruptError, GravelerError, InvalidError, UnavailableError
from graveler.model import Actor
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Key, Tables
from tests.access.support import HERE, THERE, HandClock, basic
from tests.support.instruments import CountingTables
from tests.support.keyrings import keyring
from tests.support.sts import ACCOUNT, DATE, FakeSts, Principal, identity_parts, identity_token, role, send, user

NAME = "lake.example.org"
ETL, ANN = role("etl-nightly", "i-0123"), user("team/ann")


@pytest.fixture(scope="module")
def server() -> Iterator[FakeSts]:
    with FakeSts() as made:
        made.knows(ETL, ANN)
        yield made


@pytest.fixture
def aws(server: FakeSts) -> FakeSts:
    server.asked.clear()
    server.answer = None
    return server


@pytest.fixture
def clock() -> HandClock:
    return HandClock(time.time())


@pytest.fixture
def access(tables: Tables, clock: HandClock, aws: FakeSts) -> Access:
    made = Access(tables, keyring(tables), clock, AwsLogin((NAME,), aws.client(), clock))
    made.create_rule(f"arn:aws:iam::{ACCOUNT}:role/etl-*", "etl", Role.WRITER, ["sales"], ["ingest-*"])
    return made


def token_of(principal: Principal, name: str = NAME, **said: Any) -> str:
    return identity_token(identity_parts(principal, name, **said))


def test_a_role_logs_in_with_the_rights_of_its_rule(access: Access, aws: FakeSts) -> None:
    made = access.login_with_aws(token_of(ETL), HERE)
    who = access.authenticate(f"Bearer {made.token.token}", None, HERE)
    assert (who.name, who.role, who.repositories, who.branches) == ("etl", Role.WRITER, ("sales",), ("ingest-*",))
    assert (made.principal.arn, who.key_id) == (ETL.arn, made.rule.rule_id)
    (asked,) = aws.asked
    assert asked.headers["x-lakefs-server-id"] == NAME


@pytest.mark.parametrize(
    "host", ["sts.amazonaws.com", "sts.eu-south-2.amazonaws.com", "sts-fips.us-west-2.amazonaws.com"]
)
def test_each_of_awss_hosts_is_asked_itself(access: Access, aws: FakeSts, host: str) -> None:
    access.login_with_aws(token_of(ETL, host=host), HERE)
    assert [asked.host for asked in aws.asked] == [host]


def test_a_user_with_a_path_logs_in_and_is_named_by_the_rule(access: Access) -> None:
    access.create_rule(f"arn:aws:iam::{ACCOUNT}:user/team/*", "{principal}@example.org", Role.READER)
    made = access.login_with_aws(token_of(ANN), HERE)
    assert made.name == access.authenticate(f"Bearer {made.token.token}", None, HERE).name == "ann@example.org"


def test_a_session_gives_its_name_where_the_rule_says_so(access: Access, aws: FakeSts) -> None:
    bob = role("Analyst", "bob@example.org")
    aws.knows(bob)
    access.create_rule(f"arn:aws:iam::{ACCOUNT}:role/Analyst", "{session} as {principal}", Role.READER)
    assert access.login_with_aws(token_of(bob), HERE).name == "bob@example.org as Analyst"


def test_a_session_does_not_choose_whom_rules_of_branches_see(access: Access, aws: FakeSts) -> None:
    bob = role("Analyst", "ann@example.org")
    aws.knows(bob)
    rule = access.create_rule(f"arn:aws:iam::{ACCOUNT}:role/Analyst", "{session}", Role.CHECKER, statuses=("dbt*",))
    login = access.authenticate(f"Bearer {access.login_with_aws(token_of(bob), HERE).token.token}", None, HERE)
    assert login.actor == Actor("ann@example.org", f"{rule.rule_id}/Analyst", rule.rule_id, "checker")
    assert login.statuses == ("dbt*",)
    federated = read_principal(f"arn:aws:sts::{ACCOUNT}:federated-user/ann")
    assert (federated.name, federated.unchosen_name) == ("ann", "")


def test_the_most_exact_rule_counts(access: Access) -> None:
    access.create_rule(f"arn:aws:iam::{ACCOUNT}:role/*", "anybody", Role.READER)
    access.create_rule(f"arn:aws:sts::{ACCOUNT}:assumed-role/etl-nightly/i-0123", "this machine", Role.ADMIN)
    assert [rule.name for rule in access.rules()] == ["this machine", "etl", "anybody"]
    assert access.login_with_aws(token_of(ETL), HERE).name == "this machine"


def test_one_of_several_names_of_a_server_is_enough(tables: Tables, aws: FakeSts) -> None:
    access = Access(tables, keyring(tables), aws=AwsLogin(("old.example.org", NAME), aws.client()))
    access.create_rule(f"arn:aws:iam::{ACCOUNT}:role/etl-*", "etl", Role.WRITER)
    assert access.login_with_aws(token_of(ETL), HERE).name == "etl"
    assert [asked.headers["x-lakefs-server-id"] for asked in aws.asked] == ["old.example.org", NAME]


# What is not believed, though AWS is asked


def test_a_token_for_another_server_is_of_no_use_here(access: Access, aws: FakeSts) -> None:
    """Whoever runs evil.example.org, where somebody logged in, replays it; or a copy of this lake under another name does."""
    with pytest.raises(IdentityRefusedError, match=r"SignatureDoesNotMatch.*name that this server is configured with"):
        access.login_with_aws(token_of(ETL, "evil.example.org"), HERE)
    assert len(aws.asked) == 1


@pytest.mark.parametrize("change", ["signature", "date", "access_key_id", "expiration_duration", "security_token"])
def test_a_part_that_was_changed_does_not_fit_the_signature(access: Access, change: str) -> None:
    parts = identity_parts(ETL, NAME)
    changed = {
        "signature": f"{int(parts['signature'], 16) ^ 1:064x}",
        "date": time.strftime(DATE, time.gmtime(time.time() - 30)),
        "access_key_id": ANN.key_id,
        "expiration_duration": "900",
        "security_token": parts["security_token"] + "A",
    }
    with pytest.raises(IdentityRefusedError, match="AWS does not confirm"):
        access.login_with_aws(identity_token({**parts, change: changed[change]}), HERE)


def test_a_session_that_is_over_is_refused(access: Access, aws: FakeSts) -> None:
    over = role("etl-old", ended=True)
    aws.knows(over)
    with pytest.raises(IdentityRefusedError, match="ExpiredToken"):
        access.login_with_aws(token_of(over), HERE)


def test_somebody_without_a_rule_learns_who_they_are(access: Access, aws: FakeSts) -> None:
    stranger = role("etl-nightly", account="999999999999")
    aws.knows(stranger)
    for who in (ANN, stranger):
        with pytest.raises(IdentityRefusedError, match=who.arn) as refused:
            access.login_with_aws(token_of(who), HERE)
        assert refused.value.who == who.arn


# What never reaches AWS


def refused(access: Access, aws: FakeSts, token: str, error: type[GravelerError], match: str) -> None:
    with pytest.raises(error, match=match):
        access.login_with_aws(token, HERE)
    assert aws.asked == []


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.org",
        "sts.s3.amazonaws.com",  # a bucket that somebody owns
        "sts.xx-none-1.amazonaws.com",
        "sts.amazonaws.com.evil.example.org",
        "sts.amazonaws.com:8443",
        "sts.amazonaws.com@evil.example.org",
        "sts.amazonaws.com/@evil.example.org",
        "sts.amazonaws.com\r\nHost: evil.example.org",
        "http://sts.amazonaws.com",
        "STS.AMAZONAWS.COM",
        "sts.amazonaws.com.",
        "127.0.0.1",
        "169.254.169.254",
        "",
    ],
)
def test_a_host_that_is_not_awss_is_never_asked(access: Access, aws: FakeSts, host: str) -> None:
    parts = {**identity_parts(ETL, NAME), "host": host}
    refused(access, aws, identity_token(parts), IdentityRefusedError, "not an AWS STS host")


def test_a_token_that_has_expired_is_refused(access: Access, aws: FakeSts, clock: HandClock) -> None:
    token = token_of(ETL, seconds=60, at=clock.now)
    clock.now = float(int(clock.now)) + 59
    access.login_with_aws(token, HERE)
    aws.asked.clear()
    clock.now += 1
    refused(access, aws, token, IdentityRefusedError, "expired at")


def test_a_token_of_the_future_is_refused(access: Access, aws: FakeSts, clock: HandClock) -> None:
    clock.now = float(int(clock.now))
    access.login_with_aws(token_of(ETL, at=clock.now + MAX_AHEAD), HERE)
    aws.asked.clear()
    refused(access, aws, token_of(ETL, at=clock.now + MAX_AHEAD + 1), IdentityRefusedError, "in the future")


@pytest.mark.parametrize(
    "signed",
    [
        ("host",),  # so it was signed for anybody
        ("host", "x-k8s-aws-id"),  # for a cluster of EKS
        ("host", "x-lakefs-server-id", "x-other"),
        ("x-lakefs-server-id",),
        ("host", "host", "x-lakefs-server-id"),
        ("host;x-lakefs-server-id",),
    ],
)
def test_the_servers_name_is_among_the_signed_headers(access: Access, aws: FakeSts, signed: tuple[str, ...]) -> None:
    refused(access, aws, token_of(ETL, signed=signed), IdentityRefusedError, "X-LakeFS-Server-ID")


@pytest.mark.parametrize(
    "said",
    [
        {"method": "GET"},
        {"action": "AssumeRole"},
        {"action": "GetCallerIdentity&Action=AssumeRole"},
        {"version": "2011-06-15&RoleArn=x"},
        {"algorithm": "AWS4-ECDSA-P256-SHA256"},
        {"region": "eu-west-1"},
        {"region": "us-east-1/sts/aws4_request&x=y"},
        {"date": "20261123T160000Z&x=y"},
        {"date": "20269923T160000Z"},
        {"date": ""},
        {"expiration_duration": "901"},
        {"expiration_duration": "0"},
        {"expiration_duration": "-1"},
        {"expiration_duration": "60&x=y"},
        {"expiration_duration": 60},
        {"access_key_id": "ASIA/20261123"},
        {"access_key_id": ""},
        {"signature": "0" * 63},
        {"signature": f"{'0' * 64}&x=y"},
        {"security_token": "a b"},
        {"security_token": "a\r\nHost: evil.example.org"},
        {"signed_headers": "host;x-lakefs-server-id"},
        {"query": {"Action": "AssumeRole"}},
        {"headers": {"host": "evil.example.org"}},
        {"path": "/evil"},
    ],
)
def test_a_token_says_nothing_but_what_clients_write(access: Access, aws: FakeSts, said: dict[str, Any]) -> None:
    refused(access, aws, identity_token({**identity_parts(ETL, NAME), **said}), InvalidError, "identity token")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "!",
        "e30=",
        b64encode(b"[" * 100_000).decode(),
        b64encode(b"[" * 9_000).decode(),
        "A" * 20_000,
        "e30",
        "\ud800",
    ],
)
def test_what_is_no_token_is_refused(access: Access, aws: FakeSts, token: str) -> None:
    refused(access, aws, token, InvalidError, "identity token")


def test_without_a_rule_nobody_makes_us_ask_aws(tables: Tables, aws: FakeSts) -> None:
    access = Access(tables, keyring(tables), aws=AwsLogin((NAME,), aws.client()))
    refused(access, aws, token_of(ETL), IdentityRefusedError, "no rule lets AWS principals in")


@pytest.mark.parametrize("names", [(), ("a b",), ("",), ("x\r\ny: z",), ("a",) * 5, ("é",)])
def test_a_server_has_a_name_that_can_be_signed(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidError, match="name"):
        AwsLogin(names)


# What answers instead of AWS, or badly


def test_only_tls_that_a_known_authority_vouches_for_is_believed(tables: Tables, aws: FakeSts) -> None:
    access = Access(tables, keyring(tables), aws=AwsLogin((NAME,), aws.client(believed=False)))
    access.create_rule(f"arn:aws:iam::{ACCOUNT}:role/etl-*", "etl", Role.WRITER)
    with pytest.raises(UnavailableError, match=r"(?i)certificate"):
        access.login_with_aws(token_of(ETL), HERE)


def answers(status: int, body: bytes, **headers: str) -> Any:
    return lambda handler: send(handler, status, body, headers)


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (answers(302, b"", Location="https://evil.example.org/"), UnavailableError, "status 302"),
        (answers(307, b"", Location="https://sts.eu-west-1.amazonaws.com/"), UnavailableError, "status 307"),
        (answers(500, b"{}"), UnavailableError, "status 500"),
        (answers(200, b"x" * (sts.MAX_ANSWER + 1)), UnavailableError, "more than"),
        (answers(200, b"<GetCallerIdentityResponse/>"), UnavailableError, "cannot be read"),
        (answers(200, b"[" * 50_000), UnavailableError, "cannot be read"),
        (answers(200, b"{}"), UnavailableError, "cannot be read"),
        (
            answers(200, b'{"GetCallerIdentityResponse":{"GetCallerIdentityResult":{"Arn":"arn:aws:iam::1:user/x"}}}'),
            InvalidError,
            "not the ARN of an AWS principal",
        ),
        (answers(400, b'{"Error":{"Code":"Throttling"}}'), BusyError, "too busy"),
        (answers(429, b""), BusyError, "too busy"),
        (answers(403, b"<Error/>"), IdentityRefusedError, r"\(status 403\)"),
        (answers(403, b'{"Error":{"Code":"<b>\\u0000"}}'), IdentityRefusedError, r"\(status 403\)"),
    ],
)
def test_an_answer_that_is_none_lets_nobody_in(
    access: Access, aws: FakeSts, answer: Any, error: type[GravelerError], match: str
) -> None:
    aws.answer = answer
    with pytest.raises(error, match=match):
        access.login_with_aws(token_of(ETL), HERE)
    assert len(aws.asked) == 1


def test_an_answer_that_comes_byte_by_byte_is_not_waited_for(tables: Tables, aws: FakeSts) -> None:
    """Each byte comes well within a socket's own timeout; all of them never do."""
    ended = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        while not ended.wait(0.02):
            try:
                handler.wfile.write(b"H")
            except OSError:
                return

    aws.answer = drip
    access = Access(tables, keyring(tables), aws=AwsLogin((NAME,), aws.client(seconds=0.3)))
    access.create_rule(f"arn:aws:iam::{ACCOUNT}:role/etl-*", "etl", Role.WRITER)
    try:
        with pytest.raises(UnavailableError, match=r"no response from sts\.us-east-1\.amazonaws\.com"):
            access.login_with_aws(token_of(ETL), HERE)
    finally:
        ended.set()


@pytest.mark.parametrize("waiting", [0, 1])
def test_so_many_logins_at_once_ask_aws_and_no_more(
    tables: Tables, aws: FakeSts, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    monkeypatch.setattr(sts, "AT_ONCE", 1)
    monkeypatch.setattr(sts, "WAITING", waiting)
    access = Access(tables, keyring(tables), aws=AwsLogin((NAME,), aws.client()))
    access.create_rule(f"arn:aws:iam::{ACCOUNT}:role/etl-*", "etl", Role.WRITER)
    came, go_on = threading.Event(), threading.Event()

    def hold(handler: BaseHTTPRequestHandler) -> None:
        came.set()
        go_on.wait()
        send(handler, 500, b"")

    aws.answer = hold
    said: list[Exception] = []

    def log_in() -> None:
        try:
            access.login_with_aws(token_of(ETL), HERE)
        except GravelerError as error:
            said.append(error)

    first = threading.Thread(target=log_in)
    first.start()
    came.wait()
    with pytest.raises(BusyError, match="at the same time"):
        access.login_with_aws(token_of(ETL), HERE)
    go_on.set()
    first.join()
    assert [type(error) for error in said] == [UnavailableError]


def test_who_goes_on_failing_is_told_to_wait_and_others_go_on(access: Access, aws: FakeSts) -> None:
    for _ in range(failure_limits.MOST):
        with pytest.raises(IdentityRefusedError):
            access.login_with_aws(token_of(ANN), HERE)
    aws.asked.clear()
    with pytest.raises(TooManyFailuresError):
        access.login_with_aws(token_of(ANN), HERE)
    assert aws.asked == []
    access.login_with_aws(token_of(ETL), HERE)
    with pytest.raises(IdentityRefusedError):
        access.login_with_aws(token_of(ANN), THERE)


# Tokens and rules


def test_a_token_lives_as_long_as_was_asked_for_and_twelve_hours_at_most(access: Access, clock: HandClock) -> None:
    now = int(clock.now)
    lives = [access.login_with_aws(token_of(ETL), HERE, asked).token.expires - now for asked in (None, 600, 10**9)]
    assert lives == [3600, 600, MAX_AWS_SECONDS]
    token = access.login_with_aws(token_of(ETL), HERE, 600).token.token
    clock.now += 600
    with pytest.raises(AuthenticationError):
        access.authenticate(f"Bearer {token}", None, HERE)


def test_a_rule_that_is_removed_ends_its_tokens(access: Access, tables: Tables, clock: HandClock) -> None:
    made = access.login_with_aws(token_of(ETL), HERE)
    bearer = f"Bearer {made.token.token}"
    elsewhere = Access(tables, keyring(tables), clock)
    assert elsewhere.authenticate(bearer, None, HERE) == access.authenticate(bearer, None, HERE)
    removed = access.remove_rule(made.rule.rule_id)
    assert removed == made.rule
    with pytest.raises(AuthenticationError):
        access.authenticate(bearer, None, HERE)
    clock.now += KEEP
    with pytest.raises(AuthenticationError):
        elsewhere.authenticate(bearer, None, HERE)
    again = access.create_rule(removed.principal, "etl", Role.ADMIN)
    with pytest.raises(AuthenticationError):  # the same pattern is another rule
        access.authenticate(bearer, None, HERE)
    assert again.rule_id != removed.rule_id
    with pytest.raises(PrincipalRuleNotFoundError):
        access.remove_rule(removed.rule_id)


def test_a_token_costs_one_read_as_that_of_a_key(access: Access, tables: CountingTables, clock: HandClock) -> None:
    token = access.login_with_aws(token_of(ETL), HERE).token.token
    tables.calls.clear()
    access.authenticate(f"Bearer {token}", None, HERE)
    access.authenticate(f"Bearer {token}", None, HERE)
    assert sum(tables.calls.values()) == 1


def test_a_rules_id_is_no_key(access: Access) -> None:
    (rule,) = access.rules()
    with pytest.raises(AuthenticationError):
        access.authenticate(basic(rule.rule_id, ""), None, HERE)


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"name": ""}, "name"),
        ({"name": "{role}"}, "is unknown"),
        ({"principal": "arn:aws:iam::*:role/x"}, "account of 12 digits"),
        ({"repositories": [""]}, "repository pattern"),
        ({"branches": ["x\n"]}, "branch pattern"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(access: Access, said: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidError, match=match):
        access.create_rule(**{"principal": f"arn:aws:iam::{ACCOUNT}:role/x", "name": "x", "role": Role.READER, **said})


def test_one_pattern_has_one_rule(access: Access) -> None:
    with pytest.raises(AlreadyExistsError, match="remove it first"):
        access.create_rule(f"arn:aws:sts::{ACCOUNT}:assumed-role/etl-*/*", "again", Role.ADMIN)


def test_a_rule_that_cannot_be_read_lets_nobody_in(access: Access, tables: Tables) -> None:
    tables.put(Key("access-principals", b"aws:0123456789abcdef"), {"principal": "*", "role": "emperor"})
    with pytest.raises(CorruptError, match="restore the table"):
        access.login_with_aws(token_of(ETL), HERE)


def test_all_pages_of_rules_are_read() -> None:
    class OneByOne(MemoryTables):
        def query(self, *args: Any, **said: Any) -> Any:
            return super().query(*args, **{**said, "limit": 1})

    access = Access(OneByOne())
    made = [access.create_rule(f"arn:aws:iam::{ACCOUNT}:role/r{number}", "x", Role.READER) for number in range(3)]
    assert {rule.rule_id for rule in access.rules()} == {rule.rule_id for rule in made}


def test_secrets_are_not_shown(access: Access, aws: FakeSts) -> None:
    parts = identity_parts(ETL, NAME)
    shown = repr(AwsLogin((NAME,), aws.client()).read(identity_token(parts)))
    assert parts["signature"] not in shown
    assert parts["security_token"] not in shown
    assert msgspec.json.decode(msgspec.json.encode(parts)) == parts
