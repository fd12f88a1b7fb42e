"""Where networks are computed: the processor, or a graphics card.

That is a matter of how a plan runs, as its engine is: no plan, statement or report names it, and
what is guaranteed does not depend on it. Nor does a mechanism's ``offer``: a plan is planned anew
where it is verified, which may be a machine without torch. What is there is for the mechanisms to
say that train (``Mechanism.training_device``): the core loads no torch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Final, Literal, get_args

from cloakwork.base.errors import MissingDevice

DeviceName = Literal["auto", "cpu", "cuda"]
"""``auto``: a graphics card where there is one."""

DEVICES: Final[tuple[DeviceName, ...]] = get_args(DeviceName)

INSTALL: Final = "pip install 'cloakwork[generative]'"

_CHOSEN: Final[ContextVar[DeviceName]] = ContextVar("chosen_device", default="auto")


def has_torch() -> bool:
    """Whether torch is installed; it is not loaded."""
    try:
        return find_spec("torch") is not None
    except ValueError:  # what stands in its place is no package
        return False


@contextmanager
def computed_on(name: str) -> Iterator[None]:
    """Let networks be computed on this device inside the block; MissingDevice for a name that is
    none.
    """
    if name not in DEVICES:
        raise MissingDevice(f"there is no device '{name}'; there are {', '.join(DEVICES)}")
    # A context variable: nested runs keep their own.
    token = _CHOSEN.set(name)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def chosen_name() -> DeviceName:
    """The device that was named."""
    return _CHOSEN.get()
