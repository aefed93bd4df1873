"""gem5's SimPoint probe (src/cpu/simple/probes/simpoint.cc), line by line."""


def profile(instructions, length):
    """[(pc, is_control)] of committed instructions -> the lines of the profile file."""
    blocks, lines = {}, []
    count = drift = in_block = 0
    for pc, control in instructions:
        if not in_block:
            start = pc
        count += 1
        in_block += 1
        if control:
            info = blocks.setdefault((start, pc), {"id": len(blocks) + 1, "count": 0})
            info["count"] += in_block
            in_block = 0
            if count + drift >= length:
                counts = sorted((i["id"], i["count"]) for i in blocks.values() if i["count"])
                lines.append("T" + "".join(f":{b}:{c} " for b, c in counts) + "\n")
                for i in blocks.values():
                    i["count"] = 0
                drift = count + drift - length
                count = 0
    return "".join(lines)
