"""Stack distance as defined: a list, most recent line first."""

COLD = 0xFFFFFFFF


def stack_distance(lines, updates=None):
    stack, out = [], []
    for i, line in enumerate(lines):
        there = line in stack
        out.append(stack.index(line) + 1 if there else COLD)
        if updates is None or updates[i]:
            if there:
                stack.remove(line)
            stack.insert(0, line)
    return out
