"""Where networks are computed."""

import pytest

from cloakwork.errors import MechanismError
from cloakwork.mechanisms.generative import devices
from cloakwork.mechanisms.generative.devices import chosen_device, computed_on, torch_refusal


def test_the_processor_where_there_is_no_card(monkeypatch):
    """By itself, and by name."""
    pytest.importorskip("torch")
    monkeypatch.setattr(devices, "_has_card", lambda: False)
    assert chosen_device().type == "cpu"
    with computed_on("cpu"):
        assert chosen_device().type == "cpu"
    with pytest.raises(MechanismError, match="no graphics card"), computed_on("cuda"):
        pass


def test_a_card_where_there_is_one(monkeypatch):
    """Unless the processor is asked for."""
    pytest.importorskip("torch")
    monkeypatch.setattr(devices, "_has_card", lambda: True)
    assert chosen_device().type == "cuda"
    with computed_on("cpu"):
        assert chosen_device().type == "cpu"


def test_torch_may_be_missing(monkeypatch):
    """What to install is said."""
    assert torch_refusal() is None or devices.find_spec("torch") is None
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    refused = torch_refusal()
    assert refused is not None
    assert "cloakwork[generative]" in refused.reason
    with pytest.raises(MechanismError), computed_on("cuda"):
        pass
