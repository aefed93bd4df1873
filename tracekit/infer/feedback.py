"""Rounding of weights that makes a product's error small, not each weight's.

A weight rounded up lets the next ones be rounded so that the errors cancel on inputs that go
together, as an LSTM's states do: column by column, what rounding a column adds to the product's
mean squared error is taken back, as far as it can be, by the columns still to come (Frantar et al.,
"GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2022, section
3, with the columns of the largest inputs first).  Means are part of the error: E[z zᵀ] is not
centered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["round_weights"]

Array = NDArray[Any]
DAMPING = 0.01  # of the mean squared input: what the calibration rows do not show stays harmless


def round_weights(weight: Array, moments: Array) -> Array:
    """int8 [outputs, inputs] for weights in steps that are multiplied with inputs z of such
    ``moments``: E[z zᵀ], [inputs, inputs]."""
    damping = DAMPING * float(np.diag(moments).mean())
    order = np.argsort(-np.diag(moments), kind="stable")
    damped = moments[np.ix_(order, order)] + np.eye(len(order)) * (damping or 1.0)
    factor = np.linalg.cholesky(np.linalg.inv(damped)).T
    left = weight.T.astype(np.float64)[order]  # rows are inputs: those to come are in one piece
    out = np.zeros(left.shape, np.int8)
    change = np.empty_like(left)
    for k, j in enumerate(order):
        out[j] = np.rint(left[k]).clip(-127, 127)
        error = (left[k] - out[j]) / factor[k, k]
        later = change[k + 1 :]
        np.multiply(factor[k, k + 1 :, None], error, out=later)
        left[k + 1 :] -= later
    return np.ascontiguousarray(out.T)
