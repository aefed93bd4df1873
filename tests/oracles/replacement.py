"""Replacement policies of a set-associative cache, as plainly as they can be said."""

from __future__ import annotations


def hits(policy: str, sets: int, ways: int, lines: list[int]) -> list[bool]:
    """Which of the lines a cache finds; those that it does not, it takes in."""
    cache: list[list[int | None]] = [[None] * ways for _ in range(sets)]
    state = [{"age": [0] * ways, "tree": {}, "rrpv": [3] * ways} for _ in range(sets)]
    seed, out = 88172645463325252, []
    leaves = 1
    while leaves < ways:
        leaves *= 2
    for clock, line in enumerate(lines, 1):
        s, st = cache[line % sets], state[line % sets]
        hit = line in s
        if hit:
            way = s.index(line)
        elif None in s:
            way = s.index(None)
        elif policy == "lru":
            way = st["age"].index(min(st["age"]))
        elif policy == "random":
            for shift in (13, -7, 17):
                moved = seed << shift if shift > 0 else seed >> -shift
                seed = (seed ^ moved) & (1 << 64) - 1
            way = seed % ways
        elif policy == "srrip":
            while 3 not in st["rrpv"]:
                st["rrpv"] = [v + 1 for v in st["rrpv"]]
            way = st["rrpv"].index(3)
        else:  # a bit of the tree says which half goes; halves without ways never do
            low, high = 0, leaves
            while high - low > 1:
                middle = (low + high) // 2
                right = st["tree"].get((low, high), False) and middle < ways
                low, high = (middle, high) if right else (low, middle)
            way = low
        s[way] = line
        st["age"][way] = clock
        st["rrpv"][way] = 0 if hit else 2
        low, high = 0, leaves
        while high - low > 1:
            middle = (low + high) // 2
            st["tree"][low, high] = way < middle
            low, high = (low, middle) if way < middle else (middle, high)
        out.append(hit)
    return out
