"""Numbers as people write them."""

from cloakwork.base.quantities import hours


def test_hours_take_the_unit_that_fits() -> None:
    """Days only where there are two of them."""
    assert [hours(value) for value in (0.01, 0.5, 1.5, 30, 48)] == [
        "36 s",
        "30 min",
        "1.5 h",
        "30 h",
        "2 days",
    ]
