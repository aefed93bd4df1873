"""Micro-op rows to instructions: groups of row numbers (features.md, "The macro level")."""


def groups(rows):
    """[(pc, is_last, fault, is_syscall)] -> lists of row numbers, one an instruction."""
    out, current = [], []
    for i, (pc, is_last, fault, is_syscall) in enumerate(rows):
        if current and rows[current[0]][0] != pc:
            out.append(current)
            current = []
        current.append(i)
        if is_syscall if fault else is_last:
            out.append(current)
            current = []
    return out + ([current] if current else [])
