"""Training the network of variants/transformer, and what it says of prefixes."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.kernel import Cases, Descent
from cloakwork.mechanisms.variants.chain import MarkovChain
from cloakwork.mechanisms.variants.drawing import StepFactors
from cloakwork.mechanisms.variants.markov import RemainingCases
from cloakwork_extras.networks.attention import PrefixNetwork
from cloakwork_extras.networks.devices import chosen_device
from cloakwork_extras.networks.layers import Tape, seed_from
from cloakwork_extras.networks.sequences import PaddedCases
from cloakwork_extras.networks.training import Adam, train
from cloakwork_extras.networks.transformer_params import LAST_LAYER, TransformerParams

_AT_ONCE: Final = 2**18
"""Places of prefixes that the network reads at a time."""

_LEAST: Final = 1e-9
"""A share in place of 0, whose logarithm is finite."""

_LARGEST: Final = 30.0
"""How much less than the most favoured step, in logarithms, another one can be favoured."""


def learned_factors(params: TransformerParams, remaining: RemainingCases) -> StepFactors:
    """Factors that a network learns from the remaining cases, given what the noisy tables say of
    them.
    """
    model = PrefixModel.of(params, remaining)
    shapes = model.network.shapes
    seed = seed_from(remaining.kernel.randomness)
    start = shapes.initial(seed, zeros=(model.network.last,))
    descent = Descent.of(
        times=params.steps,
        rate=params.rate,
        norm=1.0,
        multiplier=params.multiplier,
        denominator=max(1, remaining.count) * params.rate,
        max_cases=params.max_cases,
    )
    update = Adam(rate=params.learning / LAST_LAYER, times=params.steps)
    weights = train(
        remaining.kernel,
        model.losses,
        shapes,
        start,
        descent,
        update,
        title="a model of activity sequences",
        delta=params.delta,
        max_cases=params.max_cases,
    )
    return model.factors(update.average(weights))


@dataclass(frozen=True, slots=True, eq=False)
class PrefixModel:
    """A Markov chain whose steps a network takes more or less often, by all of the prefix.

    ``logarithms``: of the chain's shares, about, float32, shape (contexts, A + 1); ``is_possible``:
    where these are above 0. ``slots``: int64, shape (A,), which of the network's labels each one
    is. ``places``: of a case that are learned from.
    """

    chain: MarkovChain
    network: PrefixNetwork
    slots: Ints
    places: int
    logarithms: Tensor
    is_possible: Bools

    @classmethod
    def of(cls, params: TransformerParams, remaining: RemainingCases) -> "PrefixModel":
        """A model of which nothing is learned yet."""
        chain = MarkovChain.from_masses(remaining.masses, 1.0)
        is_possible = chain.shares > 0
        logarithms = np.log(np.maximum(chain.shares, _LEAST))
        return cls(
            chain,
            PrefixNetwork(params.labels, params.width, params.places),
            _label_slots(remaining, params.labels),
            params.places,
            torch.tensor(logarithms, dtype=torch.float32, device=chosen_device()),
            is_possible,
        )

    def losses(self, tape: Tape, cases: Cases, step: int) -> Tensor:
        """Minus the logarithm of each case's probability, over the root of how many steps that
        counts: long cases would else be clipped most. Shape (cases,).

        Steps that the chain rules out count for nothing, as they are never drawn.
        """
        padded = PaddedCases.of(cases, self.places)
        contexts = padded.contexts(self.chain)
        counts = padded.is_real & self.is_possible[contexts, padded.after]
        added = self._added(tape, padded.before)
        logarithms = self.logarithms[torch.as_tensor(contexts, device=tape.device)]
        after = torch.as_tensor(padded.after, device=tape.device)
        taken = torch.log_softmax(logarithms + added, dim=-1).gather(2, after[..., None])[..., 0]
        weight = torch.as_tensor(counts, device=tape.device).float()
        return -(taken * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1).sqrt()

    def factors(self, weights: Floats) -> StepFactors:
        """What a network of these weights makes of prefixes."""

        def of_prefixes(prefixes: Ints) -> Floats:
            rows = max(1, _AT_ONCE // (prefixes.shape[1] + 1))
            chunks = range(0, len(prefixes), rows)
            return np.concatenate([self._factors(weights, prefixes[i : i + rows]) for i in chunks])

        return of_prefixes

    def _factors(self, weights: Floats, prefixes: Ints) -> Floats:
        before = np.pad(prefixes, ((0, 0), (1, 0)))
        with torch.no_grad():
            tape = Tape(self.network.shapes.split(weights, self.logarithms.device))
            added = self._added(tape, before)[:, -1].double().cpu().numpy()
        found: Floats = np.exp(np.maximum(added - added.max(axis=1, keepdims=True), -_LARGEST))
        return found

    def _added(self, tape: Tape, before: Ints) -> Tensor:
        """What the network adds to the logarithms: shape (cases, places, A + 1)."""
        known = np.concatenate([[0], self.slots + 1])[before]
        columns = np.append(self.slots, self.network.labels)
        added = self.network(tape, torch.as_tensor(known, device=tape.device))
        return added[..., torch.as_tensor(columns, device=tape.device)]


def _label_slots(remaining: RemainingCases, slots: int) -> Ints:
    """Each label its own slot; where there are more labels, the rarest by the noisy tables share
    the last one.
    """
    labels = len(remaining.alphabet)
    mass = np.array([remaining.masses[(label,)].sum() for label in range(1, labels + 1)])
    found = np.empty(labels, np.int64)
    found[np.argsort(-mass, kind="stable")] = np.minimum(np.arange(labels), slots - 1)
    return found
