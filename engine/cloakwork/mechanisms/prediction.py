"""What a mechanism says beforehand of a release: how accurate it will be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prediction:
    """How much a release will resemble its log, by simulation: nothing of it comes from the log.

    ``usual``, ``varied``: relative log similarity where few variants hold most cases, and where
    nearly every case is a variant of its own. ``cases``: for a log of so many.
    ``variant_concentration``: how near to the first a DP profile says that the log is, from 0 to 1;
    None without one.
    """

    usual: float
    varied: float
    cases: int
    variant_concentration: float | None = None

    @property
    def expected(self) -> float:
        """One figure to rank by; without a profile, the mean of the two."""
        share = 0.5 if self.variant_concentration is None else self.variant_concentration
        return share * self.usual + (1 - share) * self.varied

    def __str__(self) -> str:
        simulated = f"(simulated, {self.cases:,} cases)"
        if self.variant_concentration is not None:
            return f"about {self.expected:.2f} similar to the log, by its DP profile {simulated}"
        return (
            f"about {self.usual:.2f} similar to the log if few variants hold most cases, "
            f"{self.varied:.2f} if nearly every case has a variant of its own {simulated}"
        )
