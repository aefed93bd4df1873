"""How well models predict what they have not seen: folds, baselines, ablation, learning curves."""

from tracekit.evaluation.recipe import ablate_recipe, cross_validate_recipe
from tracekit.evaluation.trained_models import evaluate_model

__all__ = ["ablate_recipe", "cross_validate_recipe", "evaluate_model"]
