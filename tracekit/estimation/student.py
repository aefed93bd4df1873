"""Student's t, of which intervals from few samples are made."""

from __future__ import annotations

__all__ = ["student"]

#: Student's t for two-sided 95 %, 1 to 30 degrees of freedom.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160),
    *(2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056),
    *(2.052, 2.048, 2.045, 2.042),
)


def student(freedom: float) -> float:
    """The two-sided 95 % point of Student's t; of less than one degree of freedom that of one.
    Between whole ones its logarithm is taken to be linear in their reciprocals, which is right
    within 3 %."""
    k = max(1, int(freedom))
    if freedom <= k:
        return _of_whole(k)
    above = (1 / k - 1 / freedom) * k * (k + 1)
    return float(_of_whole(k) ** (1 - above) * _of_whole(k + 1) ** above)


def _of_whole(k: int) -> float:
    return _T[k - 1] if k <= len(_T) else 1.96 + 2.5 / k
