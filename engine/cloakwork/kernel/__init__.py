"""The kernel: what a mechanism that measures holds instead of data (``docs/decisions/13``)."""

from cloakwork.kernel.books import Books
from cloakwork.kernel.cases import Cases, Column, Columns, Entries, NotGranted, Query
from cloakwork.kernel.gradients import DenseMoves, Descent, Factors, Moves
from cloakwork.kernel.growth import Growth, Level
from cloakwork.kernel.kernel import (
    Answer,
    CustomQuery,
    Kernel,
    Measured,
    MeasuredBatches,
    NoisySums,
    Owners,
    Randomness,
    Selected,
    Table,
)
from cloakwork.kernel.noises import AnswerNoise, Gaussian, Laplace, Truncated, vector_event
from cloakwork.kernel.perturb import Perturbation
from cloakwork.kernel.vectors import ONE, Clip, vectors_of

__all__ = [
    "ONE",
    "Answer",
    "AnswerNoise",
    "Books",
    "Cases",
    "Clip",
    "Column",
    "Columns",
    "CustomQuery",
    "DenseMoves",
    "Descent",
    "Entries",
    "Factors",
    "Gaussian",
    "Growth",
    "Kernel",
    "Laplace",
    "Level",
    "Measured",
    "MeasuredBatches",
    "Moves",
    "NoisySums",
    "NotGranted",
    "Owners",
    "Perturbation",
    "Query",
    "Randomness",
    "Selected",
    "Table",
    "Truncated",
    "vector_event",
    "vectors_of",
]
