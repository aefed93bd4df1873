my ($n, $sum) = (shift, 0);
my @composite = (0) x ($n + 1);
for my $i (2 .. $n) {
    next if $composite[$i];
    $sum += $i;
    for (my $j = $i * $i; $j <= $n; $j += $i) { $composite[$j] = 1 }
}
print "$sum\n";
