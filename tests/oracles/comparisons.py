"""A/B counts, row by row and pair by pair."""

import itertools


def sign(x):
    return (x > 0) - (x < 0)


def shares(cycles, mean, truth):
    """(match with ties, strict match, Kendall, all right, best right, majorities) as docs say."""
    match = strict = differ = agree = full = best = 0
    seen, seen_strict = {}, {}
    for c, e, t in zip(cycles, mean, truth, strict=True):
        c, right, m = [round(v) for v in c], True, len(t)
        for a, b in itertools.combinations(range(m), 2):
            s, p = sign(t[a] - t[b]), sign(c[a] - c[b])
            match, right, agree = match + (s == p), right and s == p, agree + (s == p) - (s * p < 0)
            seen[a, b, s] = seen.get((a, b, s), 0) + 1
            if s:
                seen_strict[a, b, s] = seen_strict.get((a, b, s), 0) + 1
                differ, strict = differ + 1, strict + (sign(e[a] - e[b]) == s)
        near = [k for k in range(m) if c[k] == min(c)]
        full, best = full + right, best + (t[min(near, key=lambda k: e[k])] == min(t))
    pairs = {k[:2] for k in seen}
    most = sum(max(seen.get((*q, s), 0) for s in (-1, 0, 1)) for q in pairs)
    most_strict = sum(max(seen_strict.get((*q, s), 0) for s in (-1, 1)) for q in pairs)
    return match, strict, differ, agree, full, best, most, most_strict
