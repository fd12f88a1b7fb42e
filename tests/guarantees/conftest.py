"""The policies that tests of plans vary, for tests of what plans derive."""

from plan.conftest import dp_policy  # noqa: F401
