"""Where a network is trained: on the processor, or on a graphics card that torch can use.

That is a matter of how a plan runs, as its engine is: no plan, statement or report names it, and
what is guaranteed does not depend on it. torch is loaded by ``require_torch`` and ``device_of``
alone, never by asking what was chosen. A mechanism's ``offer`` asks nothing here: a plan is planned
anew where it is verified, which may be a machine without torch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, get_args

from cloakwork.errors import MissingDevice, MissingExtra, first_line

if TYPE_CHECKING:
    import torch

DeviceName = Literal["auto", "cpu", "cuda"]
"""``auto``: a graphics card where there is one, else the processor."""

DEVICES: Final[tuple[DeviceName, ...]] = get_args(DeviceName)

INSTALL: Final = "pip install 'cloakwork[generative]'"

_CHOSEN: Final[ContextVar[DeviceName]] = ContextVar("device", default="auto")


def device_name(name: str) -> DeviceName:
    """``name``, if it names a device; raises MissingDevice otherwise."""
    if name not in DEVICES:
        raise MissingDevice(f"there is no device '{name}'; there are {', '.join(DEVICES)}")
    return name


def usable_device(name: str) -> DeviceName:
    """``name``, if networks can be trained there.

    Raises MissingDevice where there is no such device, MissingExtra where a graphics card is asked
    for without torch.
    """
    named = device_name(name)
    if named == "cuda":
        device_of(named)
    return named


@contextmanager
def trained_on(device: DeviceName) -> Iterator[None]:
    """Let networks be trained on ``device`` inside the block."""
    token = _CHOSEN.set(device)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def chosen_device() -> DeviceName:
    """What ``trained_on`` says; ``auto`` outside of it."""
    return _CHOSEN.get()


def has_torch() -> bool:
    """Whether torch is installed; it is not loaded."""
    try:
        return find_spec("torch") is not None
    except ValueError:  # what stands in its place is no module
        return False


def require_torch() -> None:
    """Load torch; raises MissingExtra, in one line, where that cannot be.

    To be called before anything is charged, and before a kernel calls a gradient: what fails there
    is passed over in silence.
    """
    try:
        import torch  # noqa: F401 - it loads here, or nowhere
    except (ImportError, OSError) as error:
        if not has_torch():
            raise MissingExtra(
                f"training a network needs torch, which is not installed: {INSTALL}"
            ) from error
        raise MissingExtra(
            f"training a network needs torch, which cannot be loaded ({first_line(error)}): "
            f"{INSTALL}"
        ) from error


def device_of(name: DeviceName | None = None) -> "torch.device":
    """The device called ``name``, or the chosen one.

    Raises MissingExtra without torch, and MissingDevice where a graphics card is asked for, and
    torch finds none.
    """
    require_torch()
    import torch

    named = chosen_device() if name is None else name
    has_card = named != "cpu" and torch.cuda.is_available()
    if named == "cuda" and not has_card:
        raise MissingDevice(
            "there is no graphics card that torch can use (device cuda); take cpu, or auto"
        )
    return torch.device("cuda" if has_card else "cpu")
