"""From the variant histogram of a log to what a kernel answers from."""

import numpy as np
import polars as pl

from cloakwork.arrays import Ints
from cloakwork.kernel.cases import Cases
from cloakwork.kernel.kernel import Measured, Owners
from cloakwork.noise import Noise

VARIANT, CASES, UNIT = "variant", "cases", "unit"


def measured_of(summary: pl.DataFrame, noise: Noise) -> Measured:
    """What a kernel answers from, of a variant histogram (``mechanisms.aggregates.VariantCounts``);
    where it has a column ``unit``, units are granted.

    The distinct cases come in random order, drawn from ``noise``.
    """
    by_variant = summary.group_by(VARIANT, maintain_order=True).agg(pl.col(CASES).sum())
    order = noise.permutation(by_variant.height)
    shuffled = by_variant[order]
    counts = shuffled[CASES].to_numpy().astype(np.int64)
    owners = _owners_of(summary, shuffled) if UNIT in summary.columns else None
    return Measured(_cases_of(shuffled[VARIANT]), counts, owners)


def _cases_of(variants: pl.Series) -> Cases:
    """Lists of labels (List[String]) as codes."""
    lengths = variants.list.len().to_numpy().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    labels = variants.explode(empty_as_null=False)
    alphabet = labels.unique().sort()
    codes = labels.cast(pl.Enum(alphabet)).to_physical().to_numpy().astype(np.int64)
    return Cases(tuple(alphabet), codes, offsets)


def _owners_of(summary: pl.DataFrame, shuffled: pl.DataFrame) -> Owners:
    """Units of each distinct case; a case without a unit is its own unit."""
    rows = shuffled.select(VARIANT).with_row_index("row")
    listed = summary.join(rows, on=VARIANT, how="left", maintain_order="left")
    owned = listed.filter(pl.col(UNIT).is_not_null())
    alone = listed.filter(pl.col(UNIT).is_null())
    unit = owned[UNIT].rank("dense").to_numpy().astype(np.int64) - 1
    first_alone = int(unit.max(initial=-1)) + 1
    # A row of n cases without a unit stands for n units of one case each.
    row_alone = np.repeat(_ints(alone["row"]), _ints(alone[CASES]))
    return Owners(
        row=np.concatenate([_ints(owned["row"]), row_alone]),
        unit=np.concatenate([unit, first_alone + np.arange(len(row_alone))]),
        cases=np.concatenate([_ints(owned[CASES]), np.ones(len(row_alone), np.int64)]),
    )


def _ints(series: pl.Series) -> Ints:
    return series.to_numpy().astype(np.int64)
