"""How designs compare over all that was executed, from the epochs that were sampled."""

from tracekit.estimation.estimator import Comparison, Fleet, Level, fleet

__all__ = ["Comparison", "Fleet", "Level", "fleet"]
