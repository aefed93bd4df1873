{ for (i = 1; i <= NF; i++) { n[$i]++; size += length($i) } }
END { for (w in n) if (n[w] > most) { most = n[w]; best = w } print best, most, size }
