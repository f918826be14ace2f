#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# perl: hashes, closures, regular expressions and sorting, interpreters cloned into threads, and forked children.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

export PERL_HASH_SEED=0 PERL_PERTURB_KEYS=0

prepare() {
    needs perl
    cat >work.pl <<'PERL'
use strict;
use warnings;
use threads;
use Digest::SHA qw(sha256_hex);

sub job {
    my ($seed, $rounds) = @_;
    my (%words, @trees);
    for my $i (1 .. $rounds) {
        $seed = ($seed * 1103515245 + 12345) % 2147483648;
        my $key = sprintf "k%x", $seed % 20011;
        push @{$words{$key}}, "x" x ($seed % 97) . $i;
        delete $words{sprintf "k%x", $i % 20011} if $i % 7 == 0;
        push @trees, {left => [$i, $seed], right => sub { $seed + $i }} if $i % 5 == 0;
        splice @trees, 0, 500 if @trees > 1000;
    }
    my $text = join ",", map { my $k = $_; map { "$k=$_" } @{$words{$k}} } sort keys %words;
    (my $changed = $text) =~ s/(x{10,20})(\d)/<$2$1>/g;
    return sha256_hex($text, $changed, scalar @trees);
}

print job(1, 100000), "\n";
print $_->join, "\n" for map { my $n = $_; threads->create(sub { job($n, 30000) }) } 2 .. 5;
for my $n (6 .. 7) {
    my $pid = open(my $child, "-|") // die;
    if (!$pid) { print job($n, 30000), "\n"; exit 0; }
    print <$child>;
    close $child or die "child: $?";
}
PERL
}

run() { perl ../work.pl; }

main "$@"
