"""Design-space exploration: every design of a grid, ranked by an objective."""

from tracekit.exploration.dse import explore, load_known, load_space
from tracekit.exploration.pictures import dse_plot

__all__ = ["dse_plot", "explore", "load_known", "load_space"]
