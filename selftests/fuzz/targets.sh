#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Each fuzz target (selftests/fuzz/src/targets) runs for UHSFS_FUZZ_SECONDS, two at a time, from
# its seeds in corpus/.  Inputs of earlier failures are among them.  A new one is left in
# build/fuzz/artifacts/TARGET; run it with build/fuzz/bin/TARGET FILE.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 33

seconds=${UHSFS_FUZZ_SECONDS:-60}
cd "$(dirname "$0")/../.." || exit 1
built=build/fuzz
targets=(super slot bucket map xattr trees recover image)
# Little freed memory is kept for reports, or eight runs take gigabytes.
export ASAN_OPTIONS=quarantine_size_mb=16

# fuzz TARGET: its messages go to $TAP_TMP/TARGET.log, what one empty input covers to .trivial.
fuzz()
{
	local target=$1 status=0
	local artifacts=$built/artifacts/$target
	mkdir -p "$artifacts" "$TAP_TMP/$target" "$TAP_TMP/$target.none"
	cp selftests/fuzz/corpus/"$target"/* "$TAP_TMP/$target"
	"$built/bin/$target" -runs=0 "$TAP_TMP/$target.none" >"$TAP_TMP/$target.trivial" 2>&1
	"$built/bin/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=36000 \
		-len_control=0 -print_final_stats=1 -artifact_prefix="$artifacts/" "$TAP_TMP/$target" \
		>"$TAP_TMP/$target.log" 2>&1 || status=$?
	echo "$status" >"$TAP_TMP/$target.status"
}

# number FILE WORD: the number behind the last WORD in a log; 0: there is none.
number()
{
	local found
	found=$(grep -a -o "$2: *[0-9]*" "$1" | tail -n 1 | tr -dc 0-9)
	echo "${found:-0}"
}

# judge TARGET: four results.
judge()
{
	local target=$1 log=$TAP_TMP/$1.log inputs covered trivial seeds grown least=$((seconds * 20)) more=2
	# A whole image takes longer, and the empty input is already a whole image.
	[ "$target" != image ] || least=$((seconds * 2)) more=1
	if [ "$(cat "$TAP_TMP/$target.status" 2>&1)" = 0 ]; then
		ok "$target: nothing is violated"
	else
		not_ok "$target: nothing is violated"
		grep -a -E -A 12 'VIOLATED|ERROR:|runtime error:' "$log" | head -n 60 | diag
		diag "exit status $(cat "$TAP_TMP/$target.status"); the input again:"
		grep -a -o "Test unit written to .*" "$log" | sed "s,.* ,$built/bin/$target ," | diag
	fi
	inputs=$(number "$log" 'stat::number_of_executed_units')
	check "$target: many inputs were tried" [ "$inputs" -ge "$least" ]
	trivial=$(number "$TAP_TMP/$target.trivial" ' cov')
	covered=$(number "$log" ' cov')
	seeds=$(grep -a INITED "$log" | grep -o 'ft: [0-9]*' | tr -dc 0-9)
	grown=$(number "$log" ' ft')
	check "$target: they reach more than an empty input" [ "$covered" -gt $((trivial * more)) ]
	check "$target: they reach more than the seeds" [ "$grown" -gt "${seeds:-$grown}" ]
	diag "$target: $inputs inputs, $covered edges (empty $trivial), $grown features (seeds ${seeds:-none})"
}

missing=
for target in "${targets[@]}"; do
	[ -x "$built/bin/$target" ] || missing+=" $target"
done
is "all targets are built ('make fuzz')" "$missing" ""
for target in "${targets[@]}"; do
	while [ "$(jobs -rp | wc -l)" -ge 2 ]; do
		wait -n
	done
	fuzz "$target" &
done
wait
for target in "${targets[@]}"; do
	judge "$target"
done
finish
