"""PerfVec's own network (the preset ``paper``); tracekit.train.perfvec trains it."""
