"""How far figures may be trusted: intervals by resampling questions. Pure functions; a fixed seed.

Questions are drawn with replacement, all measures of a question together. A comparison resamples the
differences, question by question, so that what makes a question hard for both says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SEED: Final = 20_250_101
RESAMPLES: Final = 2_000
CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions, and the ends of its interval of confidence."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of the second less that of the first, with its interval. `better` and `worse` count questions;
    `chance` is how likely a difference this large is where neither is better (two-sided, by flipping signs).
    """

    estimate: Estimate
    better: int
    worse: int
    chance: float


def estimate(values: Sequence[float]) -> Estimate:
    """Estimate the mean of one measure. `values` has one number a question, and at least one."""
    numbers = np.asarray(values, np.float64)
    means = _resampled(numbers)
    tail = 100.0 * (1.0 - CONFIDENCE) / 2.0
    low, high = np.percentile(means, [tail, 100.0 - tail])
    return Estimate(float(numbers.mean()), float(low), float(high))


def compare(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Compare two configurations over the same questions in the same order."""
    differences = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    return Difference(
        estimate(differences.tolist()),
        better=int((differences > 0.0).sum()),
        worse=int((differences < 0.0).sum()),
        chance=_chance(differences),
    )


def _resampled(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    means: NDArray[np.float64] = _draws(len(numbers)) @ numbers / len(numbers)
    return means


def _chance(differences: NDArray[np.float64]) -> float:
    """Flip the sign of each difference at random: how often is the sum then as far from 0 as found."""
    found = abs(float(differences.sum())) - 1e-9  # what is equal but for rounding is as far
    as_far = int((np.abs(_signs(len(differences)) @ differences) >= found).sum())
    return (as_far + 1) / (RESAMPLES + 1)


@lru_cache(maxsize=16)
def _draws(count: int) -> NDArray[np.float64]:
    """Tell how often each of so many questions is drawn, a row a resample."""
    random = np.random.default_rng(SEED)
    return np.asarray(random.multinomial(count, np.full(count, 1.0 / count), RESAMPLES), np.float64)


@lru_cache(maxsize=16)
def _signs(count: int) -> NDArray[np.float64]:
    random = np.random.default_rng(SEED)
    return np.asarray(random.integers(0, 2, (RESAMPLES, count)), np.float64) * 2.0 - 1.0
