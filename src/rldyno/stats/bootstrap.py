"""The old place of these names: import them from `stats.estimates` and `stats.moments`."""

from rldyno.stats.estimates import ENOUGH_RUNS, LEVEL, RESAMPLES, Estimate
from rldyno.stats.moments import Floats

__all__ = ["ENOUGH_RUNS", "LEVEL", "RESAMPLES", "Estimate", "Floats"]
