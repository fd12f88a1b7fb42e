"""Rules that every case of a process keeps, as everybody knows: what a policy declares under
``assume.rules``.

Each rule can be told from a case's events so far: a case that breaks one has a first event that
does, and whatever is cut off at its end, it keeps those that it kept. So a case can be drawn event
by event without ever breaking one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field, model_validator

from cloakwork.base.quantities import Described
from cloakwork.base.text import listed, quoted

Label = Annotated[str, Field(min_length=1, max_length=200)]


class ProcessRules(Described):
    """Public rules of the process: nothing is charged for keeping them, and no drawn case breaks
    one.
    """

    starts_with: tuple[Label, ...] = ()
    """Each case begins with one of these activities"""

    at_most_once: tuple[Label, ...] = ()
    """Each of these happens at most once in a case"""

    before: tuple[tuple[Label, Label], ...] = ()
    """Pairs: the second never happens unless the first happened before it"""

    never_together: tuple[Annotated[tuple[Label, ...], Field(min_length=2)], ...] = ()
    """Groups of activities: no case has two of one group"""

    @model_validator(mode="after")
    def _hold_together(self) -> "ProcessRules":
        if not self.labels():
            raise ValueError("needs a rule: starts_with, at_most_once, before or never_together")
        for group in self.never_together:
            if len(set(group)) < len(group):
                raise ValueError(f"never_together names an activity twice: {listed(quoted(group))}")
        directly: dict[str, list[str]] = {}
        for a, b in self.before:
            directly.setdefault(b, []).append(a)
        for label in self.starts_with:
            if needed := _all_before(label, directly) - {label}:
                raise ValueError(
                    f"no case can begin with '{label}': before says that "
                    f"'{min(needed)}' comes first"
                )
        for label in self.labels():
            needed = _all_before(label, directly)
            if label in needed:
                raise ValueError(f"no case can have '{label}': by before it must follow itself")
            # Whatever a case with it begins with, two must come together that never do.
            together = {label, *needed}
            apart = self._never_with(together)
            if apart & together or (self.starts_with and apart.issuperset(self.starts_with)):
                raise ValueError(
                    f"no case can have '{label}': what must come with it, never_together rules out"
                )
        return self

    def labels(self) -> tuple[str, ...]:
        """All activities that a rule names, each once, in its order."""
        groups = (self.starts_with, self.at_most_once, *self.before, *self.never_together)
        return tuple(dict.fromkeys(label for group in groups for label in group))

    def keeps(self, variant: Sequence[str]) -> bool:
        """Whether a case with these activities, in this order, breaks no rule."""
        if self.starts_with and variant and variant[0] not in self.starts_with:
            return False
        first: dict[str, int] = {}
        for place, label in enumerate(variant):
            if first.setdefault(label, place) < place and label in self.at_most_once:
                return False
        if any(len(first.keys() & {*group}) > 1 for group in self.never_together):
            return False
        return all(first[b] > first.get(a, len(variant)) for a, b in self.before if b in first)

    def in_words(self) -> Iterator[str]:
        """Each rule as a clause."""
        if self.starts_with:
            yield f"each case begins with {listed(quoted(self.starts_with), 'or')}"
        if self.at_most_once:
            each = "each of " if len(self.at_most_once) > 1 else ""
            yield f"{each}{listed(quoted(self.at_most_once))} happens at most once in a case"
        for a, b in self.before:
            yield f"'{b}' never happens unless '{a}' happened before"
        for group in self.never_together:
            yield f"no case has two of {listed(quoted(group))}"

    def _never_with(self, labels: set[str]) -> set[str]:
        """The activities that never_together rules out beside ``labels``, whose own may be among
        them.
        """
        found: set[str] = set()
        for group in self.never_together:
            own = labels.intersection(group)
            if own:
                found.update(group if len(own) > 1 else own.symmetric_difference(group))
        return found


def _all_before(label: str, directly: Mapping[str, Sequence[str]]) -> set[str]:
    """All that must have happened before an activity, which is among them if it must follow itself;
    ``directly``: by one rule.
    """
    found: set[str] = set()
    ahead = [label]
    while ahead:
        for before in directly.get(ahead.pop(), ()):
            if before not in found:
                found.add(before)
                ahead.append(before)
    return found
