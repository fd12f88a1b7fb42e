"""Whether two event logs are the same, in every column, type, order and note."""

from cloakwork.log.eventlog import EventLog


def assert_same_log(expected: EventLog, actual: EventLog, *, notes: bool = True) -> None:
    """Fail with the first difference."""
    assert expected.events.schema == actual.events.schema
    assert expected.cases.schema == actual.cases.schema
    assert expected.offsets.tolist() == actual.offsets.tolist()
    assert expected.events.equals(actual.events), (
        f"{expected.events}\n{actual.events}"
    )  # NaN equals NaN here
    assert expected.cases.equals(actual.cases), f"{expected.cases}\n{actual.cases}"
    if notes:
        assert expected.notes == actual.notes
