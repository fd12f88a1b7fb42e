"""Where networks are computed: the processor, or a graphics card.

That is a matter of how a plan runs, as its engine is: no plan, statement or report names it, and
what is guaranteed does not depend on it. Nor does a mechanism's ``offer``: a plan is planned anew
where it is verified, which may be a machine without torch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, get_args

from cloakwork.base.errors import MissingDevice, MissingExtra, first_line

if TYPE_CHECKING:
    import torch

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


def require_torch() -> None:
    """Load torch; raises MissingExtra, in one line, where that cannot be.

    To be called before anything is charged, and before a kernel asks for a gradient: what fails
    there is passed over in silence.
    """
    try:
        import torch  # noqa: F401 - it loads here, or nowhere
    except (ImportError, OSError) as error:
        missing = "which is not installed"
        if has_torch():
            missing = f"which cannot be loaded ({first_line(error)})"
        raise MissingExtra(f"training a network needs torch, {missing}: {INSTALL}") from error


@contextmanager
def computed_on(name: str) -> Iterator[None]:
    """Let networks be computed on this device inside the block.

    Raises MissingDevice where there is none such, MissingExtra where a graphics card is asked for
    without torch.
    """
    token = _CHOSEN.set(_usable_device(name))
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def chosen_device() -> "torch.device":
    """The device that networks are computed on; raises MissingExtra without torch."""
    require_torch()
    import torch

    name = _CHOSEN.get()
    if name == "auto":
        name = "cuda" if _has_card() else "cpu"
    return torch.device(name)


def _usable_device(name: str) -> DeviceName:
    if name not in DEVICES:
        raise MissingDevice(f"there is no device '{name}'; there are {', '.join(DEVICES)}")
    if name == "cuda":
        require_torch()
        if not _has_card():
            raise MissingDevice(
                "there is no graphics card that torch can use (cuda); take cpu, or auto"
            )
    return name


def _has_card() -> bool:
    import torch

    return bool(torch.cuda.is_available())
