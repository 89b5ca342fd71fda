"""Who is let in, what it costs, and how long it lasts."""

import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.access import failure_limits, verified
from graveler.access.authentication import COOKIE, Access
from graveler.access.keys import Keys, KeyWithSecret, Proof
from graveler.access.permissions import Identity, Role
from graveler.access.refusals import AuthenticationError, KeyNotFoundError, TooManyFailuresError
from graveler.errors import AlreadyExistsError, CorruptError, InvalidError
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Key
from graveler.storage.tables.sqlite import SqliteTables
from tests.access.support import HERE, THERE, HandClock, basic, header_of
from tests.support.instruments import CountingTables, FaultyTables, fail_nth
from tests.support.keyrings import keyring

GIVEN_ID, GIVEN_SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.fixture
def made(access: Access) -> KeyWithSecret:
    return access.create_key("ann", Role.WRITER, ["lake"], ["dev-*"])


def test_a_new_key_looks_as_clients_expect(access: Access) -> None:
    made = [access.create_key("ann", Role.READER) for _ in range(20)]
    assert all(re.fullmatch(r"AKIA[IJ][A-Z0-9]{14}Q", each.key.key_id) for each in made)
    assert all(re.fullmatch(r"[A-Za-z0-9]{40}", each.secret) for each in made)
    assert len({each.key.key_id for each in made} | {each.secret for each in made}) == 40


def test_a_key_and_its_secret_say_who_asks(access: Access, made: KeyWithSecret) -> None:
    assert access.authenticate(header_of(made), None, HERE) == Identity(
        made.key.key_id, "ann", Role.WRITER, ("lake",), ("dev-*",)
    )


def test_the_table_holds_no_secret(
    access: Access, tables: CountingTables, made: KeyWithSecret, clock: HandClock
) -> None:
    access.login(made.key.key_id, made.secret, HERE)
    items = [*tables.query("access-keys").items, *tables.query("access").items]
    assert items
    assert made.secret.encode() not in repr(items).encode()
    assert made.secret not in repr(made)
    assert made.secret not in repr(vars(access)["_verified"].__dict__)


def test_two_keys_with_one_secret_have_different_digests(access: Access, tables: CountingTables) -> None:
    access.ensure_first_key("one-key", GIVEN_SECRET)
    access.ensure_first_key("two-key", GIVEN_SECRET)
    assert len({item["digest"] for _, item in tables.query("access-keys").items}) == 2


def test_all_failures_look_the_same_and_cost_the_same(
    access: Access, tables: CountingTables, made: KeyWithSecret
) -> None:
    revoked = access.create_key("bob", Role.ADMIN)
    access.revoke(revoked.key.key_id)
    seen = set()
    for key_id, secret in [
        (made.key.key_id, "wrong"),
        (made.key.key_id, ""),
        (made.key.key_id, made.secret + "\x80é"),
        ("AKIAIAAAAAAAAAAAAAAQ", made.secret),
        ("", made.secret),
        ("x" * 2000, made.secret),
        ("AKIA\n\x00é", made.secret),
        (revoked.key.key_id, revoked.secret),
    ]:
        tables.reset()
        with pytest.raises(AuthenticationError) as caught:
            access.authenticate(basic(key_id, secret), None, HERE)
        seen.add((str(caught.value), tuple(tables.calls.items())))
    assert seen == {("error authenticating request", (("get", 1),))}


@pytest.mark.parametrize(
    "header",
    [None, "", "Basic", "Basic !!!", "Basic YQ==", "Digest x", "Basic " + "A" * 5000, "Bearer", "Bearer a.b.c"],
)
def test_what_is_no_credential_is_refused_without_a_request(
    access: Access, tables: CountingTables, header: str | None
) -> None:
    with pytest.raises(AuthenticationError):
        access.authenticate(header, None, HERE)
    assert tables.requests == 0


def test_a_credential_is_read_once_in_a_few_seconds(
    access: Access, tables: CountingTables, made: KeyWithSecret, clock: HandClock
) -> None:
    tables.reset()
    for _ in range(3):
        access.authenticate(header_of(made), None, HERE)
    clock.now += verified.KEEP - 0.1
    access.authenticate(header_of(made), None, THERE)
    assert tables.calls == {"get": 1}
    clock.now += 0.1
    access.authenticate(header_of(made), None, HERE)
    assert tables.calls == {"get": 2}
    clock.now -= 3600
    access.authenticate(header_of(made), None, HERE)
    assert tables.calls == {"get": 3}, "a clock that is set back lengthens nothing"


def test_a_revoked_key_ends_at_once_here_and_soon_elsewhere(
    access: Access, tables: CountingTables, made: KeyWithSecret, clock: HandClock
) -> None:
    elsewhere = Access(tables, keyring(tables), clock)
    token = "Bearer " + access.login(made.key.key_id, made.secret, HERE).token
    for each in (access, elsewhere):
        each.authenticate(header_of(made), None, HERE)
        each.authenticate(token, None, HERE)
    assert access.revoke(made.key.key_id) == made.key
    for credential in (header_of(made), token):
        with pytest.raises(AuthenticationError):
            access.authenticate(credential, None, HERE)
        elsewhere.authenticate(credential, None, HERE)
    clock.now += verified.KEEP
    for credential in (header_of(made), token):
        with pytest.raises(AuthenticationError):
            elsewhere.authenticate(credential, None, HERE)
    with pytest.raises(KeyNotFoundError):
        access.revoke(made.key.key_id)


def test_a_key_that_is_revoked_while_it_is_verified_ends_at_once_here(
    access: Access, made: KeyWithSecret, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = Keys.proof

    def slow(keys: Keys, key_id: str) -> Proof:
        found = proof(keys, key_id)
        patch.undo()  # which revoking would come through, too
        access.revoke(key_id)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Keys, "proof", slow)
        access.authenticate(header_of(made), None, HERE)  # it was good when it was looked at
    with pytest.raises(AuthenticationError):
        access.authenticate(header_of(made), None, HERE)


def test_the_list_of_keys_leaves_out_the_revoked(access: Access, made: KeyWithSecret) -> None:
    others = [access.create_key(name, Role.READER) for name in ("bob", "cleo")]
    access.revoke(others[0].key.key_id)
    assert access.keys() == sorted([made.key, others[1].key], key=lambda key: key.key_id)
    assert access.key(made.key.key_id) == made.key
    with pytest.raises(KeyNotFoundError):
        access.key(others[0].key.key_id)


def test_a_login_gives_a_token_that_stands_for_the_key(
    access: Access, tables: CountingTables, made: KeyWithSecret
) -> None:
    token = access.login(made.key.key_id, made.secret, HERE)
    by_token = replace(access.authenticate(header_of(made), None, HERE), expires=token.expires)
    tables.reset()
    assert access.authenticate(f"Bearer {token.token}", None, HERE) == by_token
    assert access.authenticate(f"bearer {token.token}", None, HERE) == by_token
    assert access.authenticate(None, f"a=b; {COOKIE}={token.token}; c", HERE) == by_token
    assert tables.calls["get"] <= 2
    with pytest.raises(AuthenticationError):
        access.authenticate("Basic YQ==", f"{COOKIE}={token.token}", HERE)
    with pytest.raises(AuthenticationError):
        access.login(made.key.key_id, "wrong", HERE)


def test_a_token_ends_after_a_week_even_if_it_was_verified_just_before(
    access: Access, made: KeyWithSecret, clock: HandClock
) -> None:
    token = access.login(made.key.key_id, made.secret, HERE)
    assert token.expires == clock.now + 7 * 24 * 3600
    clock.now = token.expires - 1
    access.authenticate(f"Bearer {token.token}", None, HERE)
    clock.now = token.expires
    with pytest.raises(AuthenticationError):
        access.authenticate(f"Bearer {token.token}", None, HERE)


def test_a_token_of_one_process_is_good_in_another(
    tables: CountingTables, made: KeyWithSecret, clock: HandClock
) -> None:
    token = Access(tables, keyring(tables), clock).login(made.key.key_id, made.secret, HERE)
    assert Access(tables, keyring(tables), clock).authenticate(f"Bearer {token.token}", None, HERE).name == "ann"


def test_too_many_failures_are_refused_until_the_window_ends(
    access: Access, tables: CountingTables, made: KeyWithSecret, clock: HandClock
) -> None:
    wrong = basic(made.key.key_id, "wrong")
    for _ in range(failure_limits.MOST):
        with pytest.raises(AuthenticationError):
            access.authenticate(wrong, None, HERE)
    tables.reset()
    with pytest.raises(TooManyFailuresError) as caught:
        access.authenticate(wrong, None, HERE)
    assert caught.value.retry_after == failure_limits.WINDOW
    with pytest.raises(TooManyFailuresError):
        access.login(made.key.key_id, "wrong", HERE)
    assert tables.requests == 0
    with pytest.raises(AuthenticationError):
        access.authenticate(wrong, None, THERE)
    other = access.create_key("bob", Role.READER)
    access.authenticate(header_of(other), None, HERE)
    clock.now += failure_limits.WINDOW
    access.authenticate(header_of(made), None, HERE)


@pytest.mark.parametrize("after", ["at once", "in a while"])
def test_nobody_locks_out_the_holder_of_a_key(
    access: Access, tables: CountingTables, made: KeyWithSecret, clock: HandClock, after: str
) -> None:
    for _ in range(2 * failure_limits.MOST):
        with pytest.raises((AuthenticationError, TooManyFailuresError)):
            access.authenticate(basic(made.key.key_id, "wrong"), None, HERE)
    if after == "in a while":
        clock.now += failure_limits.WINDOW - 1
    tables.reset()
    assert access.authenticate(header_of(made), None, HERE).name == made.key.name
    assert tables.requests == 1
    assert access.login(made.key.key_id, made.secret, HERE).token
    with pytest.raises(TooManyFailuresError):
        access.authenticate(basic(made.key.key_id, "wrong"), None, HERE)


def test_a_key_that_is_revoked_ends_though_its_digest_is_kept(
    access: Access, tables: CountingTables, made: KeyWithSecret, clock: HandClock
) -> None:
    for _ in range(failure_limits.MOST):
        with pytest.raises(AuthenticationError):
            access.authenticate(basic(made.key.key_id, "wrong"), None, HERE)
    Access(tables, keyring(tables), clock).revoke(made.key.key_id)
    with pytest.raises(AuthenticationError):
        access.authenticate(header_of(made), None, HERE)


def test_two_logins_of_one_second_are_two_sessions(
    access: Access, tables: CountingTables, made: KeyWithSecret, clock: HandClock
) -> None:
    first, second = (access.login(made.key.key_id, made.secret, HERE).token for _ in range(2))
    assert first != second
    access.logout(f"Bearer {first}", None)
    for each in (access, Access(tables, keyring(tables), clock)):
        with pytest.raises(AuthenticationError):
            each.authenticate(f"Bearer {first}", None, HERE)
        assert each.authenticate(f"Bearer {second}", None, HERE).name == made.key.name


def test_who_is_wrong_about_a_key_that_does_not_exist_waits(access: Access, tables: CountingTables) -> None:
    for _ in range(failure_limits.MOST):
        with pytest.raises(AuthenticationError):
            access.authenticate(basic("AKIANOBODY", "wrong"), None, HERE)
    tables.reset()
    with pytest.raises(TooManyFailuresError):
        access.authenticate(basic("AKIANOBODY", "wrong"), None, HERE)
    assert tables.requests == 0


def test_forged_tokens_are_slowed_down_but_good_ones_never(access: Access, made: KeyWithSecret) -> None:
    token = access.login(made.key.key_id, made.secret, HERE)
    for at in range(failure_limits.MOST):
        with pytest.raises(AuthenticationError):
            access.authenticate(f"Bearer forged{at}", None, HERE)
    with pytest.raises(TooManyFailuresError):
        access.authenticate("Bearer forged", None, HERE)
    access.authenticate(f"Bearer {token.token}", None, HERE)


def test_what_is_remembered_of_failures_is_bounded(clock: HandClock) -> None:
    counts = failure_limits.Failures(clock, most=1, windows=3)
    for at in range(10):
        counts.note(f"192.0.2.{at}", "AKIA")
    assert len(vars(counts)["_windows_of"]) == 3
    counts.check("192.0.2.6", "AKIA")
    with pytest.raises(TooManyFailuresError):
        counts.check("192.0.2.9", "AKIA")


@given(st.lists(st.integers(0, 5), max_size=30))
def test_no_window_lets_more_failures_through_than_it_may(steps: list[int]) -> None:
    clock = HandClock()
    counts = failure_limits.Failures(clock, most=3, window=10.0)
    let_through: list[float] = []
    for seconds in steps:
        clock.now += seconds
        try:
            counts.check(HERE, "AKIA")
        except TooManyFailuresError:
            continue
        counts.note(HERE, "AKIA")
        let_through.append(clock.now)
    # Windows begin at the first failure: any stretch of 10 s touches at most two of them.
    for begin in let_through:
        assert sum(begin <= at < begin + 10 for at in let_through) <= 6


def test_what_is_remembered_of_credentials_is_bounded(clock: HandClock) -> None:
    cache = verified.Verified(clock, entries=3)
    ann = Identity("AKIA", "ann", Role.READER)
    for at in range(10):
        cache.keep(f"Basic {at}", ann, clock.now)
    assert [at for at in range(10) if cache.find(f"Basic {at}")] == [7, 8, 9]
    cache.forget("AKIA")
    assert not any(cache.find(f"Basic {at}") for at in range(10))


def test_the_first_key_is_made_once(access: Access, tables: CountingTables) -> None:
    assert not access.has_keys()
    first = access.ensure_first_key()
    assert first is not None
    assert (first.key.role, first.key.name) == (Role.ADMIN, "admin")
    assert access.has_keys()
    tables.reset()
    assert access.ensure_first_key() is None
    assert tables.calls == {"query": 1}
    access.revoke(first.key.key_id)
    assert access.ensure_first_key() is None, "a lake whose keys were all revoked does not open by itself again"


def test_a_lake_is_set_up_once(access: Access) -> None:
    with pytest.raises(InvalidError):
        access.set_up("ann", (GIVEN_ID, "short"))
    made = access.set_up("ann", (GIVEN_ID, GIVEN_SECRET))
    assert made is not None
    assert access.authenticate(basic(GIVEN_ID, GIVEN_SECRET), None, HERE) == made.key.identity()
    assert access.set_up("eve", ("another-key", GIVEN_SECRET)) is None
    assert access.set_up("eve") is None
    assert access.keys() == [made.key]


def test_of_many_first_starts_one_makes_the_key(tmp_path: Path) -> None:
    with SqliteTables(tmp_path / "tables.sqlite") as tables:
        starts = [Access(tables) for _ in range(8)]
        made: list[KeyWithSecret | None] = []
        together = threading.Barrier(len(starts))

        def start(each: Access) -> None:
            together.wait()
            made.append(each.ensure_first_key())

        threads = [threading.Thread(target=start, args=(each,)) for each in starts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 8
        assert len([key for key in made if key is not None]) == 1
        assert len(starts[0].keys()) == 1


def test_a_given_first_key_is_there_after_every_start(access: Access) -> None:
    first = access.ensure_first_key(GIVEN_ID, GIVEN_SECRET)
    assert first is not None
    assert access.authenticate(basic(GIVEN_ID, GIVEN_SECRET), None, HERE).role is Role.ADMIN
    assert access.ensure_first_key(GIVEN_ID, GIVEN_SECRET) is None
    with pytest.raises(AlreadyExistsError, match="another secret"):
        access.ensure_first_key(GIVEN_ID, GIVEN_SECRET[::-1])
    access.revoke(GIVEN_ID)
    with pytest.raises(AlreadyExistsError, match="revoked"):
        access.ensure_first_key(GIVEN_ID, GIVEN_SECRET)
    assert access.ensure_first_key("another-key", GIVEN_SECRET) is not None


@pytest.mark.parametrize("ordinal", range(4))
def test_a_request_that_arrives_twice_counts_once(clock: HandClock, ordinal: int) -> None:
    """Adapters send a request again whose answer was lost."""

    def repeating() -> Access:
        return Access(FaultyTables(tables, fail_nth(ordinal, "repeat")), keyring(tables), clock)

    tables = MemoryTables()
    first = repeating().ensure_first_key()
    assert first is not None
    second = repeating().create_key("ann", Role.READER)
    for made in (first, second):
        assert repeating().authenticate(header_of(made), None, HERE).key_id == made.key.key_id
        assert repeating().login(made.key.key_id, made.secret, HERE).token
        assert repeating().revoke(made.key.key_id) == made.key
    assert repeating().keys() == []


@pytest.mark.parametrize(
    ("key_id", "secret"),
    [
        (GIVEN_ID, None),
        (None, GIVEN_SECRET),
        (GIVEN_ID, "short"),
        (GIVEN_ID, "x" * 31),
        (GIVEN_ID, "with a space" * 4),
        (GIVEN_ID, "é" * 40),
        ("a:b", GIVEN_SECRET),
        ("ab", GIVEN_SECRET),
        ("x" * 129, GIVEN_SECRET),
    ],
)
def test_a_given_key_that_cannot_be_used_is_refused(access: Access, key_id: str | None, secret: str | None) -> None:
    with pytest.raises(InvalidError):
        access.ensure_first_key(key_id, secret)
    assert not access.has_keys()


@pytest.mark.parametrize(
    ("name", "repositories", "branches"),
    [("", (), ()), ("a\nb", (), ()), ("ann", ("",), ()), ("ann", (), ("\0",)), ("ann", ("x",) * 101, ())],
)
def test_a_key_that_makes_no_sense_is_refused(
    access: Access, name: str, repositories: tuple[str, ...], branches: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidError):
        access.create_key(name, Role.READER, repositories, branches)


def test_damaged_items_are_called_corrupt(clock: HandClock) -> None:
    tables = MemoryTables()
    tables.put(Key("access-keys", b"AKIA"), {"name": "ann", "role": "emperor"})
    tables.put(Key("access", b"token-secret"), {"secret": b"short"})
    access = Access(tables, keyring(tables), clock)
    for broken in (access.keys, lambda: access.authenticate(basic("AKIA", "x"), None, HERE)):
        with pytest.raises(CorruptError):
            broken()
    made = access.create_key("ann", Role.READER)
    with pytest.raises(CorruptError):
        access.login(made.key.key_id, made.secret, HERE)


def test_a_rotation_ends_tokens_at_the_next_look(access: Access, tables: CountingTables, clock: HandClock) -> None:
    made = access.create_key("ann", Role.READER)
    token = access.login(made.key.key_id, made.secret, HERE).token
    access.rotate_signing()
    tables.calls.clear()
    with pytest.raises(AuthenticationError):
        access.authenticate(f"Bearer {token}", None, HERE)
    assert tables.calls == {"get_many": 2}, "the key, and the secret that is another one"
    again = access.login(made.key.key_id, made.secret, HERE).token
    assert access.authenticate(f"Bearer {again}", None, HERE).name == "ann"


@pytest.mark.parametrize(
    ("role", "statuses", "reason"),
    [
        (Role.CHECKER, (), "needs the names"),
        (Role.CHECKER, ("",), "status pattern"),
        (Role.CHECKER, ("a\nb",), "status pattern"),
        (Role.WRITER, ("dbt*",), "posts any"),
        (Role.READER, ("dbt*",), "posts none"),
    ],
)
def test_names_of_statuses_belong_to_checkers(role: Role, statuses: tuple[str, ...], reason: str) -> None:
    access = Access(tables := MemoryTables())
    with pytest.raises(InvalidError, match=reason):
        access.create_key("ci", role, statuses=statuses)
    assert not tables.query("access-keys").items


@pytest.mark.parametrize("name", ["graveler:checks", "aws:0123456789abcdef/etl"])
def test_nobody_has_the_name_of_another_kind_of_principal(name: str) -> None:
    with pytest.raises(InvalidError, match="choose another name"):
        Access(MemoryTables()).create_key(name, Role.ADMIN)


def test_a_checker_keeps_the_names_of_its_key() -> None:
    access = Access(MemoryTables())
    created = access.create_key("ci", Role.CHECKER, statuses=("dbt*", "gx/%+"))
    (key,) = access.keys()
    assert key == created.key
    assert key.identity().statuses == ("dbt*", "gx/%+")
