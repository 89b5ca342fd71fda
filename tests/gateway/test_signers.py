"""The secrets of access keys: how long each is trusted, and what too many failures change."""

from collections.abc import Callable

import pytest

from graveler.access.failure_limits import MOST
from graveler.access.keys import Keys
from graveler.access.permissions import Role
from graveler.gateway.authorization import TRUSTED, LakeSigners, Signer
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.storage.tables.memory import MemoryTables
from tests.access.support import HERE, THERE, HandClock
from tests.support.keyrings import keyring


@pytest.fixture
def keys() -> Keys:
    tables = MemoryTables()
    return Keys(tables, keyring(tables))


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def signer_of(signers: LakeSigners, key_id: str, secret: str, source: str = HERE) -> Signer:
    """The signer that the gateway takes for a request that is signed with this secret."""
    is_right: Callable[[str], bool] = secret.__eq__
    signer = signers.remembered(key_id) or signers.look_up(key_id, source, is_right)
    if signer.secret != secret:
        signers.note_failure(key_id, source)
    return signer


def test_a_revoked_key_ends_in_time_also_after_too_many_failures(keys: Keys, clock: HandClock) -> None:
    key = keys.create("ana", Role.WRITER, s3=True, now=0.0)
    signers = LakeSigners(keys, clock)
    for _ in range(MOST):
        signer_of(signers, key.key.key_id, "wrong")
    keys.revoke(key.key.key_id, now=1.0)
    clock.now += TRUSTED
    with pytest.raises(S3Error, match="revoked") as caught:
        signer_of(signers, key.key.key_id, key.secret)
    assert caught.value.code == "InvalidAccessKeyId"


def test_failures_of_others_do_not_lock_out_the_holder_of_a_key(keys: Keys, clock: HandClock) -> None:
    key = keys.create("ana", Role.WRITER, s3=True, now=0.0)
    signers = LakeSigners(keys, clock)
    for _ in range(MOST):
        signer_of(signers, key.key.key_id, "wrong")
    clock.now += TRUSTED
    with pytest.raises(S3Error) as caught:
        signer_of(signers, key.key.key_id, "wrong")
    assert caught.value.code == "SlowDown"
    assert signer_of(signers, key.key.key_id, key.secret).secret == key.secret
    assert signer_of(signers, key.key.key_id, key.secret, THERE).secret == key.secret
