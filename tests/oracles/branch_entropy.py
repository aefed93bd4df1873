"""Outcome windows and taken probabilities of conditional branches, from lists of all past
outcomes."""


def branch_features(branches, history):
    """[(pc, taken)] -> [(window_before, window_now, p_local, p_global)]; windows in sixteenths."""
    out, past, seen_all, pairs = [], {}, [], {}
    for pc, taken in branches:
        mine = past.setdefault(pc, [])
        pad = [0] * history
        keys = [
            ("l", pc, tuple((pad + mine)[-history:])),
            ("g", pc, tuple((pad + seen_all)[-history:])),
        ]
        p = [sum(pairs[k]) / len(pairs[k]) if k in pairs else 0.5 for k in keys]
        before = sum(2 * t for t in mine[-8:]) + 8 - len(mine[-8:])
        mine.append(int(taken))
        seen_all.append(int(taken))
        now = sum(2 * t for t in mine[-8:]) + 8 - len(mine[-8:])
        for k in keys:
            pairs.setdefault(k, []).append(int(taken))
        out.append((before, now, *p))
    return out
