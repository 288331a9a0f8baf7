#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# kmod/core/order.c gives the model's answers; without any one of its rules it does not.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"

top=$(cd "$(dirname "$0")/../.." && pwd)
protocol=$top/selftests/model/protocol

# build FOLDER: order.so with the core's order.c in it, or a changed one in FOLDER/core.
build()
{
	${CC:-cc} -std=gnu11 -O1 -Wall -shared -fPIC -I "$1" -I "$top/kmod" -I "$top/kmod/core" \
		-I "$top/kmod/uapi" "$protocol/order_shim.c" -o "$1/order.so"
}

# Each takes one condition out of one rule.
mutants=(
	'R4(a): s|ret = rule_claim(order, change, visitor);|ret = 0;|'
	'R4(a), who has no name: s/ !left->slot->names)$/ false)/'
	'R4(a), who was replaced: s/left->kind == UHSFS_ORDER_REPLACED ||$/false ||/'
	'R4(a), halves of an exchange: s/left->kind == UHSFS_ORDER_EXCHANGE &&/false \&\&/'
	'R4(a), who left later: s/left->op > claim->op ||$/false ||/'
	'R4(a), a claim given up: s/claim->in_force = false;/;/'
	'R4(b): s/ret = rule_victim(change, visitor);/ret = 0;/'
	'R4(b), the next taker: s/at = replaced_again(.*$/at = NULL;/'
	'R4(c): s/? uhsfs_order_waits(order, slot, &filter) : 0/? 0 : 0/'
	'R4(c), only who is waited for: s/return uhsfs_order_waited(order, slot) ?/return true ?/'
	'N1: s/change->parent->born)$/false)/'
	'N2, whom it replaced: s/if (claim \&\& claim->other) {/if (false) {/'
	'N2, who left before: s/bool on_disk = .*$/bool on_disk = false;/'
	'N2, a claim that is not durable: s/bool on_disk = .*$/bool on_disk = true;/'
	'R5, a directory without a name: s/if (slot->dir && !slot->names/if (false/'
	'R5, a directory that is replaced: s/change->other && slot->dir)/false)/'
	'R8: s/return tell(visitor, slot, change->other, change->op);/return 0;/'
)
plan 19

check "it builds" build "$TAP_TMP"
check "answers as the model in all states of short sequences" \
	python3 "$protocol/order_check.py" "$TAP_TMP/order.so" 3000
mkdir "$TAP_TMP/mutant" "$TAP_TMP/mutant/core"
for mutant in "${mutants[@]}"; do
	name=${mutant%%: s*}
	sed "${mutant#*: }" "$top/kmod/core/order.c" >"$TAP_TMP/mutant/core/order.c"
	if cmp -s "$top/kmod/core/order.c" "$TAP_TMP/mutant/core/order.c"; then
		not_ok "without $name it is caught" "the change does not apply to order.c"
	elif ! build "$TAP_TMP/mutant" 2>"$TAP_TMP/build"; then
		not_ok "without $name it is caught" "$(cat "$TAP_TMP/build")"
	else
		check_fails "without $name it is caught" 1 python3 "$protocol/order_check.py" "$TAP_TMP/mutant/order.so" 3000
	fi
done
finish
