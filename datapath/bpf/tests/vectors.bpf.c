// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Calls the algorithm as core/vectors.json says, one call a run, in the kernel: by its
 * verifier's rules, its interpreter or its JIT.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "onramp.h"
#include "vectors.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, or_u32);
	__type(value, struct vector_call);
} calls SEC(".maps");

SEC("classifier")
int vector(struct __sk_buff *skb __attribute__((unused)))
{
	or_u32 zero = 0;
	struct vector_call *c = bpf_map_lookup_elem(&calls, &zero);

	if (!c)
		return -1;
	switch (c->call) {
	case VECTOR_INIT:
		onramp_init(&c->flow, &c->params, c->now);
		return 0;
	case VECTOR_START:
		onramp_start(&c->flow, &c->params, c->now, c->owd, c->stamp.time);
		return 0;
	case VECTOR_STAMP:
		c->stamp = onramp_stamp_packet(&c->flow, c->now);
		return 0;
	case VECTOR_ACKED:
		onramp_acked(&c->flow, &c->params, c->now, c->stamp, c->owd);
		c->result = onramp_paused_total(&c->flow, c->now);
		return 0;
	case VECTOR_RELEASE:
		c->result = onramp_release(&c->flow, c->now);
		return 0;
	case VECTOR_TOTAL:
		c->result = onramp_paused_total(&c->flow, c->now);
		return 0;
	}
	return -1;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
