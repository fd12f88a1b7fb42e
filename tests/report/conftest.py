"""The release made by hand that a report is about: it is published, and taken as proved."""

from publishing.conftest import (  # noqa: F401 - fixtures
    _taken_as_proved,
    key,
    publish_as,
    published,
)
