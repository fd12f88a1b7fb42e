"""A causal network over prefixes: what makes a step more or less likely than a Markov chain says.

Its last layer begins at zero, so that before training every step is as likely as the chain says. It
reads three things of a prefix, whatever its length: which labels have occurred in it, how many
events there were, and, if ``width`` is above 0, what one layer of causal attention (Vaswani et al.
2017) makes of all of it. The first two do without weights before the last layer: with few cases,
or much noise, they are what can be learned.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from cloakwork_extras.networks.layers import Shapes, Tape
from cloakwork_extras.networks.transformer_params import LAST_LAYER, layer_sizes

SEEN: Final = 0.5
"""What a label that has occurred goes into the last layer as."""

SLOPES: Final = (0.0, 0.5)
"""By head: how fast attention fades with distance (Press, Smith and Lewis 2022). It needs no
weights, and no bound on how many events there are.
"""

_EMBEDDING, _QUERIES, _VALUES, _HIDDEN = range(4)


@dataclass(frozen=True, slots=True)
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
    place = torch.arange(queries.shape[2], device=queries.device)
    distance = place[:, None] - place
    slopes = torch.tensor(SLOPES, device=queries.device)[:, None, None]
    fit = queries @ keys.transpose(2, 3) / queries.shape[3] ** 0.5 - slopes * distance
    return torch.softmax(fit.masked_fill(distance < 0, float("-inf")), dim=-1) @ values
