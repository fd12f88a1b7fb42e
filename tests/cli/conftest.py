"""The release made by hand, as a folder that commands are given."""

from publishing.conftest import key, made_by_hand, published  # noqa: F401 - fixtures
