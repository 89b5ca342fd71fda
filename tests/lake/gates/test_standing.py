"""The standing of credentials: those of a revoked key and of a removed rule end."""

from graveler.access.keys import Keys
from graveler.access.permissions import Role
from graveler.access.principal_rules import PrincipalRules
from graveler.lake.gates.standing import counting
from graveler.storage.tables.memory import MemoryTables
from tests.support.instruments import CountingTables

NOW = 1_800_000_000
ARN = "arn:aws:iam::123456789012:role/etl"


def test_a_credential_counts_until_its_end() -> None:
    tables = MemoryTables()
    keys, rules = Keys(tables), PrincipalRules(tables)
    key = keys.create("ci", Role.WRITER, now=NOW).key.key_id
    rule = rules.create(ARN, "{principal}", Role.WRITER, (), (), now=NOW).rule_id
    assert counting(tables, [key, rule, "", "AKIANOBODY", "x" * 2000]) == {"", key, rule, "AKIANOBODY"}
    keys.revoke(key, now=NOW)
    assert counting(tables, [key, rule]) == {"", rule}
    rules.remove(rule, now=NOW)
    assert counting(tables, [key, rule]) == {""}


def test_a_hundred_credentials_cost_one_read() -> None:
    tables = CountingTables(MemoryTables())
    assert counting(tables, [""]) == {""}
    assert not tables.calls
    counting(tables, [f"AKIA{number}" for number in range(100)])
    assert tables.calls == {"get_many": 1}
