// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The gate as an eBPF program: a queueing discipline like sch_onramp, without a module, for Linux
 * 6.17 and later. What it decides is in gate.h and sender.h; here packets are queued and leave. How
 * they are kept is in qdisc/: state, turns, wheel and table.
 *
 * Each instance has its part of the maps, by the number that its limit holds. Flows and packets are
 * in arrays and linked by index, 0 being none. Nothing is locked: whoever calls holds the lock of the
 * device's queue.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../sch_onramp/gate.h"
#include "qdisc.h"
#include "maps.h"
#include "clock.h"
#include "kernel.h"
#define OR_QDISC
#include "packet.h"
#include "prober.h"
#include "scope.h"
#include "sender.h"
#include "qdisc/state.h"
#include "qdisc/turns.h"
#include "qdisc/wheel.h"
#include "qdisc/table.h"

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define ENOMEM 12

OR_INLINE or_u32 skb_packet_length(const struct sk_buff *skb)
{
	/* struct qdisc_skb_cb begins with it. */
	return *(const or_u32 *)skb->cb;
}

SEC("struct_ops/onramp_enqueue")
int BPF_PROG(onramp_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	or_u32 number = sch->limit - 1, zero = 0, length = skb_packet_length(skb), index, at;
	struct or_limits *l = bpf_map_lookup_elem(&limits, &zero);
	struct instance *of = instance_at(number);
	struct bucket *bucket;
	struct queue *f;
	struct kept *k, *before;
	struct sk_buff *old;
	or_u64 key, memory;

	if (!of || !l)
		goto drop;
	if (sch->q.qlen >= l->packets) {
		of->gate.stats.limit_drops++;
		goto drop;
	}
	memory = gate_memory(sch->qstats.backlog + length, sch->q.qlen + 1);
	if ((memory > of->granted || memory > l->bytes) && !memory_grow(number, memory)) {
		of->gate.stats.bytes_drops++;
		goto drop;
	}
	key = queue_key(of, skb);
	index = queue_find(number, key, l->flows);
	f = queue_at(number, index);
	if (!f)
		goto drop;
	if (f->packets >= l->flow_packets) {
		of->gate.stats.flow_limit_drops++;
		goto drop;
	}
	at = kept_take(of, number);
	k = at ? kept_at(number, at) : 0;
	if (!k) {
		of->gate.stats.limit_drops++;
		goto drop;
	}
	k->note = GATE_STAMP(of->last);
	if (index == REST) {
		k->note = hash_of(key);
		bucket = bucket_at(number, k->note);
		if (bucket)
			bucket->shared++;
	}
	if (f->place == PLACE_IDLE || f->place == PLACE_REST) {
		of->gate.stats.idle_flows -= f->place == PLACE_IDLE;
		f->gate.credit = quantum_of(of, l);
		list_move(of, number, index, f, PLACE_NEW);
	}
	/* CoDel is not asked about a flow's only packet: here it ends. */
	if (!f->packets) {
		f->gate.late_at = 0;
		f->gate.dropping = 0;
	}
	/* TCP marks its pure ACKs so. */
	if (skb->truesize == 2) {
		before = f->last_ack ? kept_at(number, f->last_ack) : 0;
		f->last_ack = at;
		/* It goes now, even if the data behind it has to wait. */
		if (f->place >= PLACE_WHEEL)
			wheel_remove(number, index);
	} else {
		before = f->head ? kept_at(number, f->tail) : 0;
	}
	if (before) {
		k->next = before->next;
		before->next = at;
	} else {
		k->next = f->head;
		f->head = at;
	}
	if (!k->next)
		f->tail = at;
	f->packets++;
	sch->qstats.backlog += length;
	sch->q.qlen++;
	old = bpf_kptr_xchg(&k->skb, skb);
	if (old)
		bpf_qdisc_skb_drop(old, to_free);
	return NET_XMIT_SUCCESS;
drop:
	sch->qstats.drops++;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

/* The decision: for how long a packet's flow has to wait. By itself, as queue_leaves(). */
SUBPROGRAM or_u32 gate_ask(or_u32 number, SKB_ARGUMENT, or_u64 now)
{
	struct instance *of = instance_at(number);
	struct or_skb packet = { .skb = skb };

	if (!of || bpf_dynptr_from_skb(skb, 0, &packet.data))
		return 0;
	packet.room = (or_u8 *)of->room;
	return sender_departs(&packet, OR_MODE_ENFORCE, now);
}

/* When the flow's first packet leaves; LATER if too much was asked already. */
#define LATER (~0ULL)
OR_INLINE or_u64 gate_opens(struct instance *of, or_u32 number, const struct or_limits *l, or_u32 index,
			    struct queue *f, struct sk_buff *skb, or_u64 now)
{
	or_u64 at = gate_departure(&f->gate, skb->tstamp, now, &of->gate.stats);
	or_u32 wait;

	if (at > now || index == REST)
		return at;
	if (of->questions++ == GATE_QUESTIONS)
		return LATER;
	wait = gate_ask(number, skb, now);
	return wait ? gate_held(&f->gate, wait, now, l->max_hold, &of->gate.stats) : now;
}

/* TCP paces itself; what others ask for nobody else sees to. */
#define ASKED (1ULL << 63)

/* Bytes a second of the packet's socket, and whether it has ASKED for that; 0: as fast as it can. */
OR_INLINE or_u64 gate_rate(const struct sk_buff *skb, const struct or_limits *l)
{
	struct sock *sk = skb->sk;
	or_u64 rate;

	if (!l->pacing || !sk_is_full(sk))
		return 0;
	rate = sk->sk_pacing_rate;
	if (rate == ~0ULL)
		return 0;
	if (sk->sk_protocol != IPPROTO_TCP)
		return rate | ASKED;
	return sk->sk_wmem_queued > GATE_SHORT_BYTES ? rate : 0;
}

/* By itself: within the dequeue the verifier of 6.17 finds too many ways. */
SUBPROGRAM int queue_leaves(or_u32 number, or_u32 index, or_u32 length, or_u64 rate, or_u64 now)
{
	or_u32 zero = 0, asked = index != REST && rate & ASKED;
	struct or_limits *l = bpf_map_lookup_elem(&limits, &zero);
	struct instance *of = instance_at(number);
	struct queue *f = queue_at(number, index);

	if (of && f && l)
		gate_leaves(&f->gate, length, rate & ~ASKED, asked, now, l->max_hold, &of->gate.stats);
	return 0;
}

/* CoDel: whether the first packet of a flow is dropped; it is taken out then. A program has no means to mark it. */
SUBPROGRAM int queue_drops(or_u32 number, or_u32 index, or_u64 now)
{
	or_u32 zero = 0, at;
	struct or_limits *l = bpf_map_lookup_elem(&limits, &zero);
	struct instance *of = instance_at(number);
	struct queue *f = queue_at(number, index);
	struct kept *k = f ? kept_at(number, f->head) : 0;

	if (!of || !k || !l || index == REST || f->last_ack || f->gate.next_at > now ||
	    !gate_is_late(&f->gate, f->packets, k->note, now, l->target) ||
	    !gate_tells(&f->gate, f->packets, k->note, now, l->target))
		return 0;
	gate_dropped(&f->gate, now, &of->gate.stats);
	at = f->head;
	f->head = k->next;
	f->packets--;
	k->next = of->free_packet;
	of->free_packet = at;
	return 1;
}

SEC("struct_ops/onramp_dequeue")
struct sk_buff *BPF_PROG(onramp_dequeue, struct Qdisc *sch)
{
	or_u32 number = sch->limit - 1, zero = 0, more = 1, quantum, i;
	struct or_limits *l = bpf_map_lookup_elem(&limits, &zero);
	struct instance *of = instance_at(number);
	struct sk_buff *leaves = 0;
	or_u64 now;

	if (!of || !l || !sch->q.qlen)
		return 0;
	quantum = quantum_of(of, l);
	now = bpf_ktime_get_ns();
	if (of->gate.stats.throttled_flows)
		wheel_turn(number, now);
	of->questions = 0;
	of->last = now;

	or_for(i, GATE_PASSES) {
		or_u32 is_new = !!of->places[PLACE_NEW].first, at;
		or_u32 index = of->places[is_new ? PLACE_NEW : PLACE_OLD].first;
		struct queue *f = index ? queue_at(number, index) : 0;
		struct bucket *bucket;
		struct sk_buff *skb;
		struct kept *k;
		or_u64 when, spare;
		or_u32 length;
		enum gate_turn turn;

		if (!f) {
			more = 0;
			break;
		}
		if (i)
			now = bpf_ktime_get_ns();
		turn = gate_turn(&f->gate, !!f->head, is_new, !!of->places[PLACE_OLD].first, quantum);
		if (turn == GATE_RETIRES) {
			queue_retire(of, number, index, f, now);
			continue;
		}
		if (turn == GATE_GOES_BACK) {
			list_move(of, number, index, f, PLACE_OLD);
			continue;
		}
		at = f->head;
		k = kept_at(number, at);
		if (!k)
			break;
		skb = bpf_kptr_xchg(&k->skb, 0);
		if (!skb)
			break;
		if (l->target && f->packets > 1 && skb->tstamp <= (or_s64)now && queue_drops(number, index, now)) {
			sch->q.qlen--;
			sch->qstats.backlog -= skb_packet_length(skb);
			sch->qstats.drops++;
			bpf_kfree_skb(skb);
			continue;
		}
		if (!f->last_ack) {
			when = gate_opens(of, number, l, index, f, skb, now);
			if (when > now) {
				skb = bpf_kptr_xchg(&k->skb, skb);
				if (skb)
					bpf_kfree_skb(skb);
				if (when == LATER)
					break;
				wheel_add(number, index, when, now);
				sch->qstats.overlimits++;
				continue;
			}
		}
		bucket = index == REST ? bucket_at(number, k->note) : 0;
		if (bucket)
			bucket->shared--;
		length = skb_packet_length(skb);
		f->head = k->next;
		f->gate.credit -= length;
		f->packets--;
		if (f->last_ack) {
			if (f->last_ack == at)
				f->last_ack = 0;
			of->gate.stats.acks_first += !!f->packets;
		} else {
			queue_leaves(number, index, length, gate_rate(skb, l), now);
		}
		sch->q.qlen--;
		sch->qstats.backlog -= length;
		spare = gate_gives(gate_memory(sch->qstats.backlog, sch->q.qlen), of->granted);
		if (spare)
			memory_give(number, spare);
		k->next = of->free_packet;
		of->free_packet = at;
		bpf_qdisc_bstats_update(sch, skb);
		leaves = skb;
		break;
	}
	if (leaves)
		return leaves;
	if (more) {
		bpf_qdisc_watchdog_schedule(sch, now, 0);
		return 0;
	}
	if (of->gate.stats.throttled_flows)
		bpf_qdisc_watchdog_schedule(sch, of->earliest, 0);
	return 0;
}

/* As when it was new, but for what is counted. */
SUBPROGRAM int instance_clear(or_u32 number)
{
	struct instance *of = instance_at(number);
	struct queue *rest = queue_at(number, REST);
	or_u32 at;

	if (!of || !rest)
		return 0;
	or_for(at, PLACES) {
		if (at < PLACES)
			of->places[at] = (struct ends){};
	}
	__builtin_memset(of->levels, 0, sizeof(of->levels));
	or_for(at, qdisc_flows) {
		struct bucket *bucket = bucket_at(number, at);

		if (bucket)
			*bucket = (struct bucket){};
	}
	memory_give(number, of->granted);
	of->free_flow = 0;
	of->fresh_flow = REST + 1;
	of->free_packet = 0;
	of->fresh_packet = 1;
	of->gate.stats.flows = 0;
	of->gate.stats.idle_flows = 0;
	of->gate.stats.throttled_flows = 0;
	__builtin_memset(rest, 0, sizeof(*rest));
	list_add(of, number, REST, rest, PLACE_REST);
	return 0;
}

SEC("struct_ops/onramp_setup")
int BPF_PROG(onramp_setup, struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct net_device *dev = sch->dev_queue->dev;
	struct instance *of;
	or_u32 number, mine = 0;

	sch->limit = 0;
	or_for(number, qdisc_instances) {
		of = instance_at(number);
		if (of && !__sync_val_compare_and_swap(&of->gate.used, 0, 1)) {
			mine = number + 1;
			break;
		}
	}
	of = mine ? instance_at(mine - 1) : 0;
	if (!of)
		return -ENOMEM;
	__builtin_memset(&of->gate.stats, 0, sizeof(of->gate.stats));
	of->gate.quantum = 2 * (dev->mtu + dev->hard_header_len);
	of->gate.ifindex = dev->ifindex;
	of->gate.parent = sch->parent;
	instance_clear(mine - 1);
	sch->limit = mine;
	return 0;
}

SEC("struct_ops/onramp_reset")
void BPF_PROG(onramp_reset, struct Qdisc *sch)
{
	or_u32 number = sch->limit - 1, at;
	struct instance *of = instance_at(number);

	if (!of)
		return;
	or_for(at, qdisc_packets) {
		struct kept *k = at < of->fresh_packet ? kept_at(number, at) : 0;
		struct sk_buff *skb;

		if (!k)
			break;
		skb = bpf_kptr_xchg(&k->skb, 0);
		if (skb)
			bpf_kfree_skb(skb);
	}
	instance_clear(number);
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

SEC("struct_ops/onramp_destroy")
void BPF_PROG(onramp_destroy, struct Qdisc *sch)
{
	struct instance *of = instance_at(sch->limit - 1);

	sch->limit = 0;
	if (of)
		__sync_lock_test_and_set(&of->gate.used, 0);
}

SEC(".struct_ops.link")
struct Qdisc_ops onramp = {
	.id = "onramp_",
	.enqueue = (void *)onramp_enqueue,
	.dequeue = (void *)onramp_dequeue,
	.init = (void *)onramp_setup,
	.reset = (void *)onramp_reset,
	.destroy = (void *)onramp_destroy,
};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
