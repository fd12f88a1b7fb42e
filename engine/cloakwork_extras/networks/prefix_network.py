"""A causal network over prefixes: what makes a step more or less likely than a Markov chain says;
and its training.

Its last layer begins at zero, so that before training every step is as likely as the chain says. It
reads three things of a prefix, whatever its length: which labels have occurred in it, how many
events there were, and, if ``width`` is above 0, what one layer of causal attention (Vaswani et al.
2017) makes of all of it. The first two do without weights before the last layer: with few cases,
or much noise, they are what can be learned.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.frozen import frozen
from cloakwork.kernel import Cases, Descent
from cloakwork.mechanisms.variants.chain import MarkovChain, StepFactors
from cloakwork.mechanisms.variants.markov import RemainingCases
from cloakwork_extras.networks.params import LAST_LAYER, TransformerParams, layer_sizes
from cloakwork_extras.networks.steps import chosen_device
from cloakwork_extras.networks.training import Adam, Shapes, Tape, Training, seed_from

SEEN: Final = 0.5
"""What a label that has occurred goes into the last layer as."""

SLOPES: Final = (0.0, 0.5)
"""By head: how fast attention fades with distance (Press, Smith and Lewis 2022). It needs no
weights, and no bound on how many events there are.
"""

_EMBEDDING, _QUERIES, _VALUES, _HIDDEN = range(4)


@frozen
class PrefixNetwork:
    """``labels``: A, how many there are; ``width``: numbers a place in attention; 0: none of it.
    ``places``: from which place on it no longer tells how many events there were.
    """

    labels: int
    width: int
    places: int

    @property
    def shapes(self) -> Shapes:
        """Of its weights; the last layer stands at the end."""
        return Shapes(layer_sizes(self.labels, self.width))

    @property
    def last(self) -> int:
        """The place of the last layer."""
        return len(self.shapes.sizes) - 1

    def __call__(self, tape: Tape, before: Tensor) -> Tensor:
        """What is added to the logarithm of each step's share: from the steps before each place
        (int64, shape (cases, places), 0 is START) to shape (cases, places, A + 1).

        What comes of a place follows from it and the places before it.
        """
        read = [self._seen(before), self._events(before)]
        if self.width:
            read.append(self._attended(tape, before))
        return tape.linear(self.last, torch.cat(read, dim=-1) * LAST_LAYER)

    def _seen(self, before: Tensor) -> Tensor:
        """Which labels have occurred: shape (cases, places, A)."""
        occurs = torch.nn.functional.one_hot(before, self.labels + 1)[..., 1:]
        return SEEN * (occurs.cumsum(dim=1) > 0)

    def _events(self, before: Tensor) -> Tensor:
        """A quarter of the logarithm of each place, from 1: shape (cases, places, 1)."""
        place = torch.arange(1, before.shape[1] + 1, device=before.device)
        events = place.clamp(max=self.places).log() / 4
        return events[None, :, None].expand(len(before), -1, 1)

    def _attended(self, tape: Tape, before: Tensor) -> Tensor:
        """One block of attention: shape (cases, places, width)."""
        steps = _normalised(tape.rows(_EMBEDDING, before))
        queries, keys = tape.linear(_QUERIES, steps).chunk(2, dim=-1)
        values = tape.linear(_VALUES, steps)
        heads = [_by_head(each) for each in (queries, keys, values)]
        found = _attention(*heads).transpose(1, 2).reshape(steps.shape)
        hidden: Tensor = torch.tanh(tape.linear(_HIDDEN, torch.cat([steps, found], dim=-1)))
        return hidden


def _normalised(values: Tensor) -> Tensor:
    """With a mean square of 1 at each place."""
    return values / values.square().mean(dim=-1, keepdim=True).clamp(min=1e-4).sqrt()


def _by_head(values: Tensor) -> Tensor:
    """From shape (cases, places, width) to (cases, heads, places, width / heads)."""
    return values.reshape(*values.shape[:2], len(SLOPES), -1).transpose(1, 2)


def _attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Means of the values up to a place; all of shape (cases, heads, places, numbers)."""
    # No place sees a later one, and near ones count for more.
    place = torch.arange(queries.shape[2], device=queries.device)
    distance = place[:, None] - place
    slopes = torch.tensor(SLOPES, device=queries.device)[:, None, None]
    fit = queries @ keys.transpose(2, 3) / queries.shape[3] ** 0.5 - slopes * distance
    return torch.softmax(fit.masked_fill(distance < 0, float("-inf")), dim=-1) @ values


@frozen
class PaddedCases:
    """The places of a batch of cases, shape (cases, places); place t is that of the event t + 1, or
    of the end. A case is coded over an alphabet of A labels.

    ``before``: int64, the step that precedes a place: a label from 1 to A, or 0, which is START.
    ``after``: int64, what stands at the place: a label from 0 to A - 1, or A, the end. ``is_real``:
    whether the case has this place; where it has not, both are 0.
    """

    before: Ints
    after: Ints
    is_real: Bools

    @classmethod
    def of(cls, cases: Cases, most_places: int) -> "PaddedCases":
        """The first ``most_places`` (1 or more) of each case; a longer one has no end. A case
        without events has no place.
        """
        lengths = cases.lengths
        places = min(int(lengths.max(initial=0)) + 1, most_places)
        shape = len(cases), places
        before, after = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        # An event stands after its own place, and before the next one.
        row, place = cases.case_of, cases.place
        kept = place < places
        after[row[kept], place[kept]] = cases.codes[kept]
        kept = place + 1 < places
        before[row[kept], place[kept] + 1] = cases.codes[kept] + 1
        # Only cases that fit have an end to be learned.
        ended = np.flatnonzero((lengths > 0) & (lengths < places))
        after[ended, lengths[ended]] = len(cases.alphabet)
        real_places = np.where(lengths > 0, np.minimum(lengths + 1, places), 0)
        is_real = np.arange(places) < real_places[:, None]
        return cls(before, after, is_real)

    def contexts(self, chain: MarkovChain) -> Ints:
        """The context of ``chain`` at each place: int64, shape (cases, places); 0, that of START,
        where a case has no place.
        """
        found: Ints = np.zeros_like(self.before)
        # By the chain's own steps, so that both judge a place by one context.
        for place in range(1, self.before.shape[1]):
            label = np.maximum(self.before[:, place] - 1, 0)
            reached = chain.next_context[found[:, place - 1], label]
            found[:, place] = np.where(self.is_real[:, place], reached, 0)
        return found


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
    # The last layer starts at zero: before training, steps are as likely as the chain says.
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
    training = Training(
        title="a model of activity sequences",
        losses=model.losses,
        shapes=shapes,
        descent=descent,
        delta=params.delta,
        max_cases=params.max_cases,
    )
    weights = training.run(remaining.kernel, start, update)
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

    def losses(
        self,
        tape: Tape,
        cases: Cases,
        step: int,
    ) -> Tensor:
        """Minus the logarithm of each case's probability, over the root of how many steps that
        counts: long cases would else be clipped most. Shape (cases,).

        Steps that the chain rules out count for nothing, as they are never drawn.
        """
        padded = PaddedCases.of(cases, self.places)
        contexts = padded.contexts(self.chain)
        # Steps that the chain never takes, and places behind the end, count for nothing.
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
            # So many places at a time, whatever the length of prefixes.
            rows = max(1, _AT_ONCE // (prefixes.shape[1] + 1))
            chunks = range(0, len(prefixes), rows)
            return np.concatenate([self._factors(weights, prefixes[i : i + rows]) for i in chunks])

        return of_prefixes

    def _factors(self, weights: Floats, prefixes: Ints) -> Floats:
        before = np.pad(prefixes, ((0, 0), (1, 0)))
        with torch.no_grad():
            tape = Tape(self.network.shapes.split(weights, self.logarithms.device))
            # The last place alone: what follows the whole prefix.
            added = self._added(tape, before)[:, -1].double().cpu().numpy()
        # Only ratios matter: the largest factor is 1, and none is 0.
        found: Floats = np.exp(np.maximum(added - added.max(axis=1, keepdims=True), -_LARGEST))
        return found

    def _added(self, tape: Tape, before: Ints) -> Tensor:
        """What the network adds to the logarithms: shape (cases, places, A + 1)."""
        # From the chain's labels to the network's, and its answers back again.
        known = np.concatenate([[0], self.slots + 1])[before]
        columns = np.append(self.slots, self.network.labels)
        added = self.network(tape, torch.as_tensor(known, device=tape.device))
        return added[..., torch.as_tensor(columns, device=tape.device)]


def _label_slots(remaining: RemainingCases, slots: int) -> Ints:
    """Each label its own slot; of more, the rarest by the noisy tables share the last one."""
    labels = len(remaining.alphabet)
    mass = np.array([remaining.masses[(label,)].sum() for label in range(1, labels + 1)])
    found = np.empty(labels, np.int64)
    found[np.argsort(-mass, kind="stable")] = np.minimum(np.arange(labels), slots - 1)
    return found
