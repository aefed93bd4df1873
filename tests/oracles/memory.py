"""Distances and reuse of memory accesses, from the list of all that came before."""

FAR = 100_000_000


def distance(past_lines, line):
    """1 + distinct lines touched since the line was last touched; FAR where it never was."""
    for back, other in enumerate(reversed(past_lines)):
        if other == line:
            return 1 + len(set(past_lines[len(past_lines) - back :]))
    return FAR


def memory_features(rows, is_load):
    """[(row, addr, op)] -> [(load, store, data distance, reuse)]; is_load decides whose stack is
    updated."""
    loads, stores, data, last, out = [], [], [], {}, []
    for row, addr, op in rows:
        line = addr >> 6
        reuse = min(row - last[addr], 1000) if addr in last else 1000
        out.append((distance(loads, line), distance(stores, line), distance(data, line), reuse))
        (loads if is_load(op) else stores).append(line)
        data.append(line)
        last[addr] = row
    return out
