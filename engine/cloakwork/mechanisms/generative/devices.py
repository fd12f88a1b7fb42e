"""Where networks are computed: the processor, or a graphics card."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, Final, Literal

from cloakwork.errors import MechanismError
from cloakwork.mechanisms.base import Refusal

DeviceName = Literal["auto", "cpu", "cuda"]
"""``auto``: a graphics card where there is one."""

_CHOSEN: Final[ContextVar[DeviceName]] = ContextVar("chosen_device", default="auto")


def torch_refusal() -> Refusal | None:
    """Why a mechanism that trains a network cannot run here; None where it can."""
    if find_spec("torch") is not None:
        return None
    return Refusal("needs", "it needs torch: pip install 'cloakwork[generative]'")


@contextmanager
def computed_on(name: DeviceName) -> Iterator[None]:
    """Let networks be computed on this device inside the block. Raises MechanismError where there
    is none such.
    """
    if name == "cuda" and not _has_card():
        raise MechanismError("device", "there is no graphics card that torch can use (cuda)")
    token = _CHOSEN.set(name)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def chosen_device() -> Any:
    """The device that networks are computed on: a ``torch.device``."""
    import torch

    name = _CHOSEN.get()
    if name == "auto":
        name = "cuda" if _has_card() else "cpu"
    return torch.device(name)


def _has_card() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())
