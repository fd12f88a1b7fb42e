"""Attributes for cases that were made of noisy answers: noisy tables, and a regression's gradient
step from them.
"""

from typing import ClassVar

from cloakwork.mechanisms.attributes.histogram import AttributesHistogram
from cloakwork.mechanisms.attributes.histogram_params import (
    AttributesHistogramOptions,
    AttributesRegressionOptions,
)
from cloakwork.mechanisms.base import Theorem


class AttributesRegression(AttributesHistogram):
    """As attributes/histogram, with most of its tables' budget for a gradient step from them.

    Tables of all attributes are counted with a smaller part of the budget. They are a multinomial
    logistic regression of values on activities; a gradient step follows from there
    (``GradientStep``), under noise of its own: at each value how often each case has it, less how
    often the tables expect it. That vector is shorter than what the case adds to the tables, and so
    is the norm that it is clipped to. Both answers are averaged, weighted by how precise they are.
    Where noise would hide all tables of two attributes, a second step takes their place.

    **Sensitivity.** Tables as there. The gradient of a case is divided by a norm that follows from
    earlier answers and the released control flow, and clipped by the kernel to norm 1 (L2), so a
    unit of m cases moves a step by at most m, whatever the tables expect.

    **Edge cases.** As of attributes/histogram. Where tables are mere noise, the step counts values
    as they do, and the release is that of the tables.
    """

    name: ClassVar[str] = "attributes/regression"
    action: ClassVar[str] = "draw attributes with noise, corrected by a gradient step"
    summary: ClassVar[str] = (
        "Gives released cases attributes, drawn from noisy counts of values per activity that a "
        "gradient step under noise corrects."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): as attributes/histogram, the numbers "
        "of cases by class of norm, the tables of all attributes, those of two attributes and the "
        "sums that values are found by move by at most m; so does each gradient step, whatever "
        "earlier answers it starts at: a sum of vectors of cases, each clipped to norm 1 (L2) in "
        "whole grid steps. Discrete Gaussian noise on all of them composes adaptively; a value "
        "that one unit alone has is found with the charged delta at most; what is drawn from "
        "counts and steps is post-processing.",
        "Canonne, Kamath, Steinke 2020, theorem 14; Dong, Roth, Su 2022, corollary 3.3; Abadi et "
        "al. 2016, for gradient steps; Desfontaines et al. 2022, for values that are found",
    )
    Options: ClassVar[type[AttributesHistogramOptions]] = AttributesRegressionOptions
