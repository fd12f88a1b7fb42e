"""What tests of networks use of torch, imported when it is first used: to collect them loads none
of it.
"""

import os
from importlib import import_module
from importlib.util import find_spec

import pytest

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


class Lazily:
    """A module, or what it calls ``name``."""

    def __init__(self, module, name=None):
        self._where = module, name

    def _found(self):
        module, name = self._where
        found = import_module(module)
        return found if name is None else getattr(found, name)

    def __call__(self, *given, **named):
        return self._found()(*given, **named)

    def __getattr__(self, name):
        # What is asked while tests are collected imports nothing.
        if "PYTEST_CURRENT_TEST" not in os.environ:
            raise AttributeError(name)
        return getattr(self._found(), name)


torch = Lazily("torch")
