"""How well models predict what they have not seen: folds, baselines, ablation, learning curves."""
