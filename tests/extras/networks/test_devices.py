"""Where networks are trained: named, chosen, and refused in one line where it is not there."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cloakwork.base.facts import Facts
from cloakwork.errors import MissingDevice, MissingExtra
from cloakwork.mechanisms.devices import computed_on, has_torch
from cloakwork.mechanisms.registry import catalogue
from cloakwork.testing.contract_logs import EVERY_GOAL
from cloakwork_extras.networks.steps import chosen_device, require_torch


def stand_in_for_torch(monkeypatch: pytest.MonkeyPatch, *, card: bool) -> None:
    """A module that says whether there is a graphics card, and loads at once."""
    torch: Any = ModuleType("torch")
    torch.__spec__ = ModuleSpec("torch", None)
    torch.cuda = SimpleNamespace(is_available=lambda: card)
    torch.device = lambda name: SimpleNamespace(type=name)
    monkeypatch.setitem(sys.modules, "torch", torch)


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were not installed."""
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.parametrize(
    ("named", "card", "taken"),
    [
        ("auto", True, "cuda"),
        ("auto", False, "cpu"),
        ("cpu", True, "cpu"),
        ("cuda", True, "cuda"),
    ],
)
def test_a_name_becomes_a_device(
    monkeypatch: pytest.MonkeyPatch, named: str, card: bool, taken: str
) -> None:
    """The processor or a graphics card, whatever was chosen outside the block."""
    stand_in_for_torch(monkeypatch, card=card)
    with computed_on("cpu"):
        with computed_on(named):
            assert chosen_device().type == taken
        assert chosen_device().type == "cpu"


def test_a_missing_graphics_card_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line makes exit code 2 of it, as of any option that cannot be."""
    stand_in_for_torch(monkeypatch, card=False)
    said = r"^there is no graphics card .*; take cpu, or auto$"
    with pytest.raises(MissingDevice, match=said), computed_on("cuda"):
        chosen_device()
    assert MissingDevice.exit_code == 2


def test_an_unknown_device_is_told() -> None:
    """With those that there are."""
    said = r"no device 'tpu'; there are auto, cpu, cuda$"
    with pytest.raises(MissingDevice, match=said), computed_on("tpu"):
        pass


def test_a_choice_ends_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the block fails."""
    stand_in_for_torch(monkeypatch, card=True)
    with pytest.raises(ZeroDivisionError), computed_on("cpu"):
        raise ZeroDivisionError
    assert chosen_device().type == "cuda"


@pytest.mark.usefixtures("no_torch")
def test_missing_torch_is_one_line_with_the_remedy() -> None:
    """And the processor needs it as a graphics card does."""
    assert not has_torch()
    for need in (require_torch, chosen_device, catalogue()["variants/ddpm"].training_device):
        with pytest.raises(MissingExtra) as caught:
            need()
        assert str(caught.value) == (
            "training a network needs torch, which is not installed: "
            "pip install 'cloakwork[generative]'"
        )


def test_torch_that_does_not_load_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one whose libraries this machine lacks: the first line of what it says."""

    class Broken:
        def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
            return ModuleSpec(name, self) if name == "torch" else None  # type: ignore[arg-type]

        def create_module(self, _: ModuleSpec) -> None:
            return None

        def exec_module(self, _: ModuleType) -> None:
            raise OSError("libgomp.so.1: no such file\nand more")

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(MissingExtra, match=r"cannot be loaded \(libgomp.so.1: no such file\): pip"):
        require_torch()


def test_no_offer_depends_on_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is planned anew where it is verified, and must come out the same without torch."""
    offered = []
    for module in (None, ModuleType("torch")):
        monkeypatch.setitem(sys.modules, "torch", module)
        offered.append(
            [
                catalogue()[name].offer(goal, Facts(alphabet=("a", "b")), {})
                for name in catalogue()
                for goal in EVERY_GOAL
            ]
        )
    assert offered[0] == offered[1]
