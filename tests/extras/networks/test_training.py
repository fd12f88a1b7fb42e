"""Training by gradient steps of a kernel."""

import numpy as np
import pytest

from cloakwork.base.costs import Repeated
from cloakwork.base.progress import heard_by
from cloakwork.kernel import Descent
from cloakwork.noise import reproducible
from extras.networks.lazily import Lazily, needs_torch, torch
from kernel.small import kernel_of, measured

pytestmark = needs_torch
training = Lazily("cloakwork_extras.networks.training")
Adam = Lazily("cloakwork_extras.networks.training", "Adam")
Shapes = Lazily("cloakwork_extras.networks.training", "Shapes")
train = Lazily("cloakwork_extras.networks.training", "train")

TIMES = 60


def shapes():
    return Shapes(((3, 2),))


DESCENT = Descent.of(times=TIMES, rate=0.5, norm=1.0, multiplier=0.5, denominator=250.0)
SEEN = measured([("a", "good"), ("b", "bad"), ("a", "bad"), ("b", "good")], [200, 200, 50, 50])


def losses(tape, cases, step):
    """Cross-entropy of the last activity, given the first."""
    first = torch.nn.functional.one_hot(torch.tensor(cases.coded("ab")[cases.offsets[:-1]]), 2)
    last = torch.tensor(cases.coded(("good",))[cases.offsets[1:] - 1] == 0).long()
    return torch.nn.functional.cross_entropy(tape.linear(0, first.float()), last, reduction="none")


def trained():
    """The weights after all steps."""
    event = Repeated(times=TIMES, event=DESCENT.event(shapes().size, 1))
    kernel = kernel_of(SEEN, event, noise=reproducible(15))
    update = Adam(rate=0.1, times=TIMES)
    weights = train(
        kernel, losses, shapes(), shapes().initial(1), DESCENT, update, title="a test", delta=1e-5
    )
    return update.average(weights)


def test_a_network_learns():
    """What follows what, and the same for one seed."""
    weights = trained()
    chances = torch.softmax(torch.tensor(weights[:4] + np.tile(weights[4:], 2)).reshape(2, 2), 1)
    assert chances[:, 1].numpy() == pytest.approx([0.8, 0.2], abs=0.1)
    assert np.array_equal(weights, trained())


def test_progress_is_told(monkeypatch):
    """In epochs, in steps and in what is spent."""
    monkeypatch.setattr("cloakwork_extras.networks.training.REPORTED", 0.0)
    monkeypatch.setattr(
        "cloakwork_extras.networks.training.cost", lambda event, delta: training_cost(event)
    )
    heard = []
    with heard_by(heard.append):
        trained()
    assert len(heard) == TIMES
    assert heard[29].startswith("training a test: epoch 15 of 30 (step 30 of 60), epsilon 30 of")


def training_cost(event):
    """As many units as there are steps."""
    from cloakwork.base.costs import Cost

    return Cost(epsilon=float(event.times), delta=0.0)
