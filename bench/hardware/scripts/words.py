import sys

counts: dict[str, int] = {}
for name in sys.argv[1:]:
    with open(name) as f:  # noqa: PTH123
        for line in f:
            for word in line.split():
                counts[word] = counts.get(word, 0) + 1
best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5]
print(best)
