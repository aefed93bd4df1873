"""Design-space exploration: every design of a grid, ranked by an objective."""
