"""Every granted right is needed."""

import re
from pathlib import Path
from secrets import token_hex

import lakefs
from lakefs.client import Client

from tests.infra.conftest import Deployed
from tests.infra.iam.declared import declared_calls
from tests.infra.iam.policies import Right
from tests.infra.iam.recorder import Recorded
from tests.infra.iam.rights import STAY, obsolete, unexplained
from tests.infra.iam.templates import Stacks
from tests.infra.tools import templates


def test_each_right_is_used_or_has_a_reason(deployed: Deployed, client: Client, recorded: Recorded) -> None:
    """A story that has each function that answers clients called, and what the templates ask of services."""
    name = f"rights-{token_hex(3)}"
    repo = lakefs.Repository(name, client=client).create(storage_namespace=f"s3://{deployed.bucket}/{name}")
    main = repo.branch("main")
    main.object("a").upload(data=b"through the function")
    main.object("b").upload(data=b"with a presigned URL", pre_sign=True)
    main.commit(message="first")
    dev = repo.branch("dev").create(source_reference="main")
    dev.object("b").upload(data=b"changed", pre_sign=True)
    dev.object("a").delete()
    dev.commit(message="second")
    assert len(list(main.diff(other_ref=dev))) == 2
    dev.merge_into(main)
    assert main.object("b").reader(pre_sign=False).read() == b"changed"

    assert recorded.judge() == []
    called = {found[1] for name in recorded.functions if (found := re.search("Functions([A-Z][a-z]+)", name))}
    assert called >= {"Commit", "Diff", "Merge", "Read", "Setup", "Write"}
    stacks = Stacks(templates(Path(deployed.assembly)), physical=lambda stack, logical: deployed.names[stack][logical])
    used = recorded.used | {right for call in declared_calls(stacks) for right in recorded.policies.decide(call).used}
    assert unexplained(recorded.policies.rights(), used) == []
    assert obsolete(recorded.policies.rights()) == []


def test_a_right_that_nobody_thought_of_is_listed() -> None:
    more = Right("api/FunctionsReadPolicy", "s3:DeleteBucket", "arn:aws:s3:::graveler-objects")
    assert unexplained([more], []) == [more]
    assert unexplained([more], [more]) == []


def test_each_reason_is_of_some_right() -> None:
    assert obsolete([]) == list(STAY)
    assert all(entry.reason.endswith(".") for entry in STAY)
