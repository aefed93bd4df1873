"""The programs of bench/whole_programs.py and what they read, made from one seed.

Instruction sets take turns, so that a study that is stopped has some of each.  X86 programs are the
distribution's, ARM ones those of the shared traces, RISC-V ones kernels of bench/hardware, compiled
for it.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "bench" / "hardware" / "kernels"
SHARED = Path(os.environ.get("TRACEKIT_SHARED", ROOT.parent / "shared" / "traces")) / "elf"
#: Of all that is drawn for what programs read.
SEED = 26
RISCV = "riscv64-linux-gnu-gcc"


@dataclass(frozen=True)
class Program:
    """``command``: ARM:NAME is a file of the shared traces, RISCV:NAME and X86:NAME a file of
    kernels to be compiled, CC1 the compiler proper; other words stand for themselves, and files are
    in the folder of inputs."""

    name: str
    command: tuple[str, ...]
    stdin: str | None = None


PROGRAMS = (
    Program("python", ("/usr/bin/python3", "-S", "-E", "work.py")),
    Program("bzip2.arm", ("ARM:bzip2", "-k", "-c", "text.txt")),
    Program("sort.riscv", ("RISCV:sort", "merge", "20", "200000")),
    Program("lua", ("/usr/bin/lua5.4", "trees.lua")),
    Program("speedtest1.arm", ("ARM:speedtest1", "--memdb", "--size", "10")),
    Program("graph.riscv", ("RISCV:graph", "shortest", "40", "30000")),
    Program("sqlite", ("/usr/bin/sqlite3", ":memory:"), "tables.sql"),
    Program("dijkstra.arm", ("ARM:kern", "dijk", "120000", "8")),
    Program("hash.riscv", ("RISCV:hash", "chained", "60", "65536")),
    Program("xz", ("/usr/bin/xz", "-T1", "-3", "-k", "-c", "text.txt")),
    Program("lua.arm", ("ARM:lua", "text.lua")),
    Program("interpreter.riscv", ("RISCV:interpreter", "calls", "20", "1")),
    Program("cc1", ("CC1", "-O2", "-quiet", "graph.i", "-o", "graph.s")),
)
#: X86 programs on which, with python and lua, it was chosen how `simpoints` tells phases apart.
CHOOSING = (
    Program("perl", ("/usr/bin/perl", "words.pl")),
    Program("tree", ("X86:pointers", "tree", "100", "60000")),
)

WORK_PY = """
import json, random, re
random.seed(26)
words = open("text.txt").read().split()
records = [{"id": i, "name": random.choice(words), "tags": random.choices(words, k=5),
            "value": random.random()} for i in range(4000)]
for turn in range(6):
    text = json.dumps(records)
    back = json.loads(text)
    found = re.findall(r'"name": "([a-m]\\\\w*)"', text)
    counts = {}
    for word in words[turn * 2000:turn * 2000 + 60000]:
        counts[word] = counts.get(word, 0) + 1
    order = sorted(back, key=lambda r: (r["tags"], r["value"]))
    total = sum(r["value"] for r in order[::3]) + len(found) + len(counts)
"""

TREES_LUA = """
math.randomseed(26)
local function tree(depth)
  if depth == 0 then return {} end
  return {tree(depth - 1), tree(depth - 1)}
end
local function count(t) if not t[1] then return 1 end return 1 + count(t[1]) + count(t[2]) end
local function queens(n, row, columns, up, down)
  if row > n then return 1 end
  local found = 0
  for c = 1, n do
    if not (columns[c] or up[row + c] or down[row - c + n]) then
      columns[c], up[row + c], down[row - c + n] = true, true, true
      found = found + queens(n, row + 1, columns, up, down)
      columns[c], up[row + c], down[row - c + n] = nil, nil, nil
    end
  end
  return found
end
local sum = 0
for turn = 1, 12 do
  sum = sum + count(tree(13)) + queens(7, 1, {}, {}, {})
  local numbers = {}
  for i = 1, 20000 do numbers[i] = math.random(1 << 30) end
  table.sort(numbers)
  sum = sum + numbers[1]
end
"""

TEXT_LUA = """
local f = io.open("text.txt")
local text = f:read("a"):sub(1, 600000)
f:close()
for turn = 1, 12 do
  local counts, order = {}, {}
  for word in text:gmatch("%a+") do
    if not counts[word] then counts[word] = 0; order[#order + 1] = word end
    counts[word] = counts[word] + 1
  end
  table.sort(order, function(a, b)
    return counts[a] > counts[b] or counts[a] == counts[b] and a < b
  end)
  local changed = text:gsub("(%a+) (%a+)", "%2 %1"):upper()
  local parts = {}
  for i = 1, 20000 do parts[i] = order[i % #order + 1] .. changed:byte(i) end
  text = table.concat(parts, " ") .. text:sub(1, 400000)
end
"""

WORDS_PL = """
srand(26);
open(my $in, "<", "text.txt");
my @words = split " ", join "", <$in>;
for my $turn (1 .. 6) {
  my (%counts, %before);
  for my $k ($turn * 9000 .. $turn * 9000 + 30000) {
    $counts{$words[$k]}++;
    push @{$before{$words[$k]}}, $words[$k - 1];
  }
  my @order = sort { $counts{$b} <=> $counts{$a} or $a cmp $b } keys %counts;
  my $text = join " ", map { ucfirst($_) . @{$before{$_}} } @order;
  $text =~ s/([a-m])(\\w)/$2$1/g;
  my @lines = map { join ",", @words[$_ .. $_ + 5] } map { int rand @words - 6 } 1 .. 8000;
  my %fields;
  for my $line (@lines) { my @f = split /,/, $line; $fields{$f[2]} .= $f[4]; }
}
"""

TABLES_SQL = """
create table items(id integer primary key, name text, kind integer, price real);
create table sales(item integer, day integer, amount integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000)
  insert into items select i, hex(i * 7919 % 65521) || i, i * 31 % 97, i * 17 % 1000 / 10.0 from n;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
  insert into sales select i * 6151 % 30000 + 1, i % 365, i * 13 % 50 from n;
create index by_item on sales(item);
select kind, count(*), sum(price * amount) from items join sales on item = id group by kind;
select day, count(distinct item), max(amount) from sales group by day order by 2 desc limit 10;
update items set price = price * 1.1 where name like '%A%';
select name from items where id in (select item from sales where amount > 45) order by name limit 9;
delete from sales where day % 7 = 3;
select count(*) from items a join items b on a.kind = b.kind and a.id < b.id where a.price > 90;
"""


def text(size: int) -> str:
    """Words of a made-up language, as often as Zipf says, in lines."""
    draw = random.Random(SEED)
    parts = ["ka", "to", "mi", "ren", "sol", "du", "pa", "lin", "ve", "sta", "or", "em", "qui"]
    words = ["".join(draw.choices(parts, k=draw.randint(1, 4))) for _ in range(20_000)]
    often = list(itertools.accumulate(1 / (k + 1) for k in range(len(words))))
    out: list[str] = []
    length = 0
    while length < size:
        line = " ".join(draw.choices(words, cum_weights=often, k=12))
        out.append(line)
        length += len(line) + 1
    return "\n".join(out) + "\n"


def make_inputs(folder: Path) -> None:
    """What programs read, once."""
    if (folder / "graph.i").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "empty").write_bytes(b"")
    (folder / "text.txt").write_text(text(3_000_000))
    (folder / "work.py").write_text(WORK_PY)
    (folder / "trees.lua").write_text(TREES_LUA)
    (folder / "text.lua").write_text(TEXT_LUA)
    (folder / "words.pl").write_text(WORDS_PL)
    (folder / "tables.sql").write_text(TABLES_SQL)
    subprocess.run(["gcc", "-E", KERNELS / "graph.c", "-o", folder / "graph.i"], check=True)


def command_of(program: Program, folder: Path) -> list[str]:
    """What is run, in ``folder``, where kernels are compiled to."""
    first, *rest = program.command
    kind, _, name = first.partition(":")
    if kind == "ARM":
        return [str(SHARED / "arm" / name), *rest]
    if kind in ("RISCV", "X86"):
        return [str(compiled(name, RISCV if kind == "RISCV" else "gcc", folder)), *rest]
    if kind == "CC1":
        found = subprocess.run(
            ["gcc", "-print-prog-name=cc1"], check=True, capture_output=True, text=True
        )
        return [found.stdout.strip(), *rest]
    return [first, *rest]


def compiled(name: str, compiler: str, folder: Path) -> Path:
    """A file of kernels, static."""
    out = folder / f"{name}.{compiler}"
    if not out.exists():
        source = KERNELS / f"{name}.c"
        subprocess.run([compiler, "-O2", "-static", source, "-o", out, "-lm"], check=True)
    return out
