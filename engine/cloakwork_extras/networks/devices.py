"""The device that networks are trained on, as torch has it."""

from typing import TYPE_CHECKING, ClassVar, Literal

from cloakwork.base.errors import MissingDevice, MissingExtra, first_line
from cloakwork.mechanisms.devices import INSTALL, chosen_name, has_torch

if TYPE_CHECKING:
    import torch


class TrainsNetwork:
    """What mechanisms that train a network share: they say which device is there."""

    trains: ClassVar[bool] = True

    def training_device(self) -> Literal["cpu", "cuda"]:
        """See ``Mechanism``."""
        return "cuda" if chosen_device().type == "cuda" else "cpu"


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


def chosen_device() -> "torch.device":
    """The device that networks are computed on.

    Raises MissingExtra without torch, MissingDevice where a graphics card was asked for and there
    is none that torch can use.
    """
    require_torch()
    import torch

    name, has_card = chosen_name(), bool(torch.cuda.is_available())
    if name == "cuda" and not has_card:
        raise MissingDevice(
            "there is no graphics card that torch can use (cuda); take cpu, or auto"
        )
    if name == "auto":
        name = "cuda" if has_card else "cpu"
    return torch.device(name)
