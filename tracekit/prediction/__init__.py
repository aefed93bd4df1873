"""Times of traces and of real programs on every machine that a model knows (docs/predict.md)."""
