"""The number of waits, computed from the requests that passed the proxies."""

from bench.aws import Exchange, at_once, story, waves


def exchange(operation: str, begin: float, end: float) -> Exchange:
    return Exchange(True, operation, begin, end)


def test_a_wave_begins_when_all_before_it_has_been_answered() -> None:
    sent = [
        exchange("Query", 1.5, 3),
        exchange("GetItem", 0, 1),
        exchange("Query", 1.2, 1.4),
        exchange("Query", 1.3, 2),
        exchange("PUT", 3, 4),
    ]
    assert [len(wave) for wave in waves(sent)] == [1, 3, 1]
    assert story(waves(sent)) == "GetItem, 3 Query, PUT"
    assert at_once(sent) == 2
    assert waves([]) == []
