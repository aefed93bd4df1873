my %n;
while (<>) { $n{lc $_}++ for grep { length > 2 } split /[^a-z]+/i; }
my @best = sort { $n{$b} <=> $n{$a} || $a cmp $b } keys %n;
print "$_ $n{$_}\n" for @best[0 .. 4];
