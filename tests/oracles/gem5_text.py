"""gem5's debug text, a line at a time: rows in commit order, squashed blocks dropped."""

import re

_EXEC = re.compile(
    r" *(\d+): (\S+): 0x(\w+)(?:\.( ?\d+)|   ) : (.*?) *: (\w+) : "
    r"(?: A=0x(\w+))?(?:  FetchSeq=(\d+))?(?:  flags=\((.*)\))?$"
)
_STAGES = ("fetch", "decode", "rename", "dispatch", "issue", "complete", "retire", "store")


def read(text: str) -> list[dict]:
    rows, by_seq, blocks, block = [], {}, {}, None
    for line in text.splitlines():
        if line.startswith("O3PipeView:fetch:"):
            f = line.split(":", 6)
            block = {
                "pc": int(f[3], 16),
                "upc": int(f[4]),
                "seq": int(f[5]),
                "text": f[6].strip(),
                "fetch": int(f[2]),
            }
        elif line.startswith("O3PipeView:"):
            f = line.split(":")
            block |= {f[1]: int(f[2])} | ({"store": int(f[4])} if f[1] == "retire" else {})
            blocks |= {block["seq"]: block} if f[1] == "retire" else {}
        elif m := _EXEC.match(line):
            row = dict(
                zip(
                    ("when", "cpu", "pc", "upc", "text", "op", "addr", "seq", "flags"),
                    m.groups(),
                    strict=True,
                )
            )
            row |= {
                "pc": int(row["pc"], 16),
                "upc": int(row["upc"] or 0),
                "text": row["text"].strip(),
            }
            rows.append(
                row | {"addr": row["addr"] and int(row["addr"], 16), "seq": int(row["seq"] or 0)}
            )
    if not rows:  # blocks alone: those that retired, by seq
        return [blocks[s] | {"addr": None} for s in sorted(blocks) if blocks[s]["retire"]]
    for row in rows:
        by_seq = blocks.get(row["seq"], {})
        row |= {s: by_seq.get(s, 0) for s in _STAGES} | {
            "untimed": not by_seq,
            "trapped": by_seq.get("retire") == 0,
        }
    return rows
