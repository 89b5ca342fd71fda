"""The AWS credentials of a program that keeps its own: as its gateway finds them, before and after they are renewed."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pytest

from graveler.errors import UnavailableError
from graveler.gateway.own_keys import OwnSigners
from graveler.gateway.protocol.s3_errors import S3Error
from tests.access.support import HERE, HandClock

LONG_AGO = 1_000_000_000.0


@pytest.fixture
def clock() -> HandClock:
    clock = HandClock()
    clock.now = LONG_AGO
    return clock


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Path]:
    """The file of credentials, which an environment without any leads to."""
    file = tmp_path / "credentials"
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    settings = {
        "AWS_SHARED_CREDENTIALS_FILE": str(file),
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with patch.dict(os.environ, {**variables, **settings}, clear=True):
        yield file


def write(file: Path, key_id: str, token: str) -> None:
    lines = "[default]", f"aws_access_key_id={key_id}", f"aws_secret_access_key=secret of {key_id}"
    file.write_text("\n".join([*lines, f"aws_session_token={token}"]))


def code_for(signers: OwnSigners, key_id: str) -> str:
    """The code with which a key is refused."""
    with pytest.raises(S3Error) as caught:
        signers.look_up(key_id, HERE, lambda _: False)
    return caught.value.code


def test_no_credentials_are_an_error_at_the_start(profile: Path) -> None:
    with pytest.raises(UnavailableError, match="no AWS credentials to verify by: Unable to locate credentials"):
        OwnSigners("ana")


def test_renewed_credentials_are_found_and_the_former_ones_stay(profile: Path, clock: HandClock) -> None:
    write(profile, "ASIA1", "first")
    signers = OwnSigners("ana", clock=clock)
    assert signers.remembered("ASIA2") is None
    write(profile, "ASIA2", "second")
    assert code_for(signers, "ASIA2") == "InvalidAccessKeyId"  # it has just looked
    clock.now += 2
    second = signers.look_up("ASIA2", HERE, lambda _: False)
    first = signers.remembered("ASIA1")
    assert first is not None
    assert (first.secret, second.secret) == ("secret of ASIA1", "secret of ASIA2")
    assert "secret of" not in repr(first)
    first.expect_token("first")
    for token in ("", "second"):
        with pytest.raises(S3Error) as caught:
            first.expect_token(token)
        assert caught.value.code == "InvalidToken"


def test_credentials_that_have_expired_do_not_sign(profile: Path, clock: HandClock) -> None:
    expires = datetime.now(UTC).timestamp() + 3600
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "ASIA1",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_CREDENTIAL_EXPIRATION": datetime.fromtimestamp(expires, UTC).isoformat(),
    }
    signers = OwnSigners("ana", clock=clock)
    assert signers.remembered("ASIA1") is not None
    clock.now = expires + 1
    assert signers.remembered("ASIA1") is None
    assert code_for(signers, "ASIA1") == "ExpiredToken"
