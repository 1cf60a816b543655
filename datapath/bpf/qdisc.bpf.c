// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The gate as an eBPF program: a queueing discipline like sch_onramp, without a module, for Linux
 * 6.17 and later. What it decides is in gate.h and sender.h; here is how packets are kept.
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
#include "sender.h"

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define TCP_TIME_WAIT_STATE 6
#define TCP_LISTEN_STATE 10
#define TCP_NEW_SYN_RECV_STATE 12
#define SOCK_STREAM_TYPE 1
#define ENOMEM 12

/* The agent chooses these before it loads the program; powers of two. */
const volatile or_u32 qdisc_instances = 4;
const volatile or_u32 qdisc_flows = 16384;
const volatile or_u32 qdisc_packets = 16384;

/* Where a flow is: in a list of the turns, without packets (REST by itself), or in a slot of the wheel. */
#define PLACE_NEW 0
#define PLACE_OLD 1
#define PLACE_IDLE 2
#define PLACE_REST 3
#define PLACE_WHEEL 4
/* Of 131 us each, 134 ms together; whoever waits for longer than all of them is in the last, and goes on from there. */
#define WHEEL_SHIFT 17
#define WHEEL_SLOTS 1024
#define PLACES (PLACE_WHEEL + WHEEL_SLOTS)
/* The flow of all packets for which there is no room for another. */
#define REST 1
/* Flows in a bucket that are looked at. */
#define CHAIN 64
#define COLLECT 8

struct ends {
	or_u32 first;
	or_u32 last;
};

/**
 * struct queue - a flow
 * @key: see queue_key()
 * @until: throttled until then
 * @idle_since: since when it has no packets
 * @gate: what the gate remembers of it
 * @chain: the next one of its bucket
 * @next: in the list of its place
 * @previous: in that list
 * @place: PLACE_*
 * @head: first packet
 * @tail: last packet
 * @last_ack: last of the pure ACKs at its head, if there are any
 * @packets: in the flow
 */
struct queue {
	or_u64 key;
	or_u64 until;
	or_u64 idle_since;
	struct gate_flow gate;
	or_u32 chain;
	or_u32 next;
	or_u32 previous;
	or_u32 place;
	or_u32 head;
	or_u32 tail;
	or_u32 last_ack;
	or_u32 packets;
};

/**
 * struct instance - a queueing discipline
 * @gate: what the agent sees of it
 * @questions: asked in this dequeue
 * @free_flow: first of the flows that were given back, linked by their chain
 * @fresh_flow: the first that was never used
 * @free_packet: first of the packets' places that were given back
 * @fresh_packet: the first that was never used
 * @pointer: what was one is a number when it is read here
 * @room: for copies of parts of the packet that is asked about
 * @looked_at: slots before this time are empty
 * @places: lists of flows
 * @filled: slots of the wheel that have flows, a bit each
 * @earliest: of the flows in a slot, or before
 */
struct instance {
	struct or_gate gate;
	or_u32 questions;
	or_u32 free_flow;
	or_u32 fresh_flow;
	or_u32 free_packet;
	or_u32 fresh_packet;
	volatile or_u64 pointer;
	or_u64 room[SKB_ROOM / 8];
	or_u64 looked_at;
	struct ends places[PLACES];
	or_u64 filled[WHEEL_SLOTS / 64];
	or_u64 earliest[WHEEL_SLOTS];
};

struct kept {
	struct sk_buff __kptr *skb;
	or_u32 next;
	or_u32 length;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, or_u32);
	__type(value, struct instance);
} instances SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4 * 16384);
	__type(key, or_u32);
	__type(value, struct kept);
} kept SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4 * 16384);
	__type(key, or_u32);
	__type(value, struct queue);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4 * 16384);
	__type(key, or_u32);
	__type(value, or_u32);
} buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, or_u32);
	__type(value, struct or_limits);
} limits SEC(".maps");

/* The verifier follows these once, for whatever they are given, and not from where they are called. */
#define SUBPROGRAM __attribute__((noinline))

OR_INLINE struct instance *instance_at(or_u32 number)
{
	return bpf_map_lookup_elem(&instances, &number);
}

OR_INLINE struct queue *queue_at(or_u32 number, or_u32 index)
{
	or_u32 at = number * qdisc_flows + (index & (qdisc_flows - 1));

	return bpf_map_lookup_elem(&queues, &at);
}

OR_INLINE struct kept *kept_at(or_u32 number, or_u32 index)
{
	or_u32 at = number * qdisc_packets + (index & (qdisc_packets - 1));

	return bpf_map_lookup_elem(&kept, &at);
}

OR_INLINE or_u32 *bucket_of(or_u32 number, or_u64 key)
{
	or_u32 at = number * qdisc_flows + ((or_u32)(key * 0x9e3779b97f4a7c15ULL >> 32) & (qdisc_flows - 1));

	return bpf_map_lookup_elem(&buckets, &at);
}

OR_INLINE struct ends *ends_of(struct instance *of, or_u32 place)
{
	/* What the compiler knows of it the verifier may not. */
	asm volatile("" : "+r"(place));
	return place < PLACES ? &of->places[place] : 0;
}

/* Puts a flow at the end of a list. */
OR_INLINE void list_add(struct instance *of, or_u32 number, or_u32 index, struct queue *f, or_u32 place)
{
	struct ends *ends = ends_of(of, place);
	struct queue *last;

	if (!ends)
		return;
	f->place = place;
	f->next = 0;
	f->previous = ends->last;
	last = ends->last ? queue_at(number, ends->last) : 0;
	if (last)
		last->next = index;
	else
		ends->first = index;
	ends->last = index;
}

/* Takes a flow out of the list of @place, where it is. */
OR_INLINE void list_remove(struct instance *of, or_u32 number, struct queue *f, or_u32 place)
{
	struct ends *ends = ends_of(of, place);
	struct queue *other;

	if (!ends)
		return;
	other = f->previous ? queue_at(number, f->previous) : 0;
	if (other)
		other->next = f->next;
	else
		ends->first = f->next;
	other = f->next ? queue_at(number, f->next) : 0;
	if (other)
		other->previous = f->previous;
	else
		ends->last = f->previous;
}

OR_INLINE void list_move(struct instance *of, or_u32 number, or_u32 index, struct queue *f, or_u32 place)
{
	list_remove(of, number, f, f->place);
	list_add(of, number, index, f, place);
}

/* A flow waits until then; it has a turn. */
SUBPROGRAM int wheel_add(or_u32 number, or_u32 index, or_u64 until, or_u64 now)
{
	or_u64 slot = until >> WHEEL_SHIFT, last = (now >> WHEEL_SHIFT) + WHEEL_SLOTS - 1;
	struct instance *of = instance_at(number);
	struct queue *f = queue_at(number, index);
	or_u64 earliest = slot <= last ? until : last << WHEEL_SHIFT;
	or_u32 at = (slot <= last ? slot : last) & (WHEEL_SLOTS - 1);

	if (!of || !f)
		return 0;
	f->until = until;
	list_move(of, number, index, f, PLACE_WHEEL + at);
	if (!f->previous || earliest < of->earliest[at])
		of->earliest[at] = earliest;
	of->filled[at / 64] |= 1ULL << (at & 63);
	/* While nobody waits, the wheel stands still. */
	if (!of->gate.stats.throttled_flows++)
		of->looked_at = now >> WHEEL_SHIFT;
	return 0;
}

/* A flow that waits gets a turn again. */
SUBPROGRAM int wheel_remove(or_u32 number, or_u32 index)
{
	struct instance *of = instance_at(number);
	struct queue *f = queue_at(number, index);
	or_u32 at = f ? f->place - PLACE_WHEEL : WHEEL_SLOTS;
	struct ends *slot;

	if (!of || !f || at >= WHEEL_SLOTS)
		return 0;
	slot = ends_of(of, PLACE_WHEEL + at);
	list_move(of, number, index, f, PLACE_OLD);
	if (slot && !slot->first)
		of->filled[at / 64] &= ~(1ULL << (at & 63));
	of->gate.stats.throttled_flows--;
	return 0;
}

/* Takes an idle flow out of the table. */
SUBPROGRAM int queue_forget(or_u32 number, or_u32 index)
{
	struct instance *of = instance_at(number);
	struct queue *f = queue_at(number, index), *before = 0;
	or_u32 *bucket, at, i;

	if (!f || !of)
		return 0;
	bucket = bucket_of(number, f->key);
	if (!bucket)
		return 0;
	at = *bucket;
	or_for(i, CHAIN) {
		if (!at || at == index)
			break;
		before = queue_at(number, at);
		if (!before)
			break;
		at = before->chain;
	}
	if (at != index)
		return 0;
	if (before)
		before->chain = f->chain;
	else
		*bucket = f->chain;
	list_remove(of, number, f, PLACE_IDLE);
	f->chain = of->free_flow;
	of->free_flow = index;
	of->gate.stats.flows--;
	of->gate.stats.idle_flows--;
	of->gate.stats.collected++;
	return 0;
}

/* The idle list is in the order in which flows became idle. */
SUBPROGRAM int queue_collect(or_u32 number, or_u32 most, or_u64 now)
{
	struct instance *of = instance_at(number);
	or_u32 i;

	or_for(i, COLLECT) {
		or_u32 index = of ? of->places[PLACE_IDLE].first : 0;
		struct queue *f = index ? queue_at(number, index) : 0;

		if (!f || (of->gate.stats.flows < most && now - f->idle_since < GATE_IDLE_NS))
			break;
		queue_forget(number, index);
	}
	return 0;
}

/*
 * The same for all packets of a flow. A local TCP connection is known by its socket, which its
 * packets keep alive; the key stays when TCP changes the hash after a loss. Odd, so unlike a
 * pointer, for all others.
 */
OR_INLINE or_u64 queue_key(struct instance *of, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;

	if (sk && sk->sk_type == SOCK_STREAM_TYPE && sk->sk_protocol == IPPROTO_TCP) {
		or_u32 state = sk->__sk_common.skc_state;

		if (state != TCP_TIME_WAIT_STATE && state != TCP_NEW_SYN_RECV_STATE && state != TCP_LISTEN_STATE) {
			of->pointer = (or_u64)sk;
			return of->pointer;
		}
	}
	return (or_u64)bpf_skb_get_hash(skb) << 1 | 1;
}

/* The flow of a key: found, or made. REST if there is no room. */
SUBPROGRAM or_u32 queue_find(or_u32 number, or_u64 key, or_u32 most)
{
	struct instance *of = instance_at(number);
	or_u32 *bucket = bucket_of(number, key), at, i;
	struct queue *f;

	if (!of || !bucket)
		return REST;
	at = *bucket;
	f = at ? queue_at(number, at) : 0;
	if (f && f->key == key)
		return at;
	or_for(i, CHAIN) {
		f = at ? queue_at(number, at) : 0;
		if (!f)
			break;
		if (f->key == key)
			return at;
		at = f->chain;
	}
	if (!at) {
		queue_collect(number, most, bpf_ktime_get_ns());
		if (of->gate.stats.flows < most) {
			at = of->free_flow;
			f = at ? queue_at(number, at) : 0;
			if (f)
				of->free_flow = f->chain;
			else if (of->fresh_flow < qdisc_flows)
				at = of->fresh_flow++;
		}
		f = at ? queue_at(number, at) : 0;
		if (f) {
			__builtin_memset(f, 0, sizeof(*f));
			f->key = key;
			f->chain = *bucket;
			*bucket = at;
			list_add(of, number, at, f, PLACE_IDLE);
			of->gate.stats.flows++;
			of->gate.stats.idle_flows++;
			return at;
		}
	}
	of->gate.stats.no_flow++;
	return REST;
}

/* A place for a packet; 0 if there is none. */
OR_INLINE or_u32 kept_take(struct instance *of, or_u32 number)
{
	or_u32 at = of->free_packet;
	struct kept *k = at ? kept_at(number, at) : 0;

	if (k) {
		of->free_packet = k->next;
		return at;
	}
	return of->fresh_packet < qdisc_packets ? of->fresh_packet++ : 0;
}

OR_INLINE or_u32 skb_packet_length(const struct sk_buff *skb)
{
	/* struct qdisc_skb_cb begins with it. */
	return *(const or_u32 *)skb->cb;
}

/* Bytes a flow sends in its turn. */
OR_INLINE or_u32 quantum_of(const struct instance *of, const struct or_limits *l)
{
	return l->quantum ? l->quantum : of->gate.quantum;
}

SEC("struct_ops/onramp_enqueue")
int BPF_PROG(onramp_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	or_u32 number = sch->limit - 1, zero = 0, length = skb_packet_length(skb), index, at;
	struct or_limits *l = bpf_map_lookup_elem(&limits, &zero);
	struct instance *of = instance_at(number);
	struct queue *f;
	struct kept *k, *before;
	struct sk_buff *old;

	if (!of || !l)
		goto drop;
	if (sch->q.qlen >= l->packets) {
		of->gate.stats.limit_drops++;
		goto drop;
	}
	if (sch->qstats.backlog + length > l->bytes) {
		of->gate.stats.bytes_drops++;
		goto drop;
	}
	index = queue_find(number, queue_key(of, skb), l->flows);
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
	k->length = length;
	if (f->place == PLACE_IDLE || f->place == PLACE_REST) {
		of->gate.stats.idle_flows -= f->place == PLACE_IDLE;
		f->gate.credit = quantum_of(of, l);
		list_move(of, number, index, f, PLACE_NEW);
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

/* The first slot from that of @from on which has flows, as its time in units of slots; 0 if none has. */
SUBPROGRAM or_u64 wheel_first(or_u32 number, or_u64 from)
{
	struct instance *of = instance_at(number);
	or_u32 i, word;

	if (!of)
		return 0;
	or_for(word, WHEEL_SLOTS / 64 + 1) {
		or_u32 at = from & (WHEEL_SLOTS - 1);
		or_u64 bits = of->filled[at / 64] >> (at & 63);

		if (bits) {
			or_u32 shift = 0;

			for (i = 32; i; i /= 2) {
				if (!(bits & ((1ULL << i) - 1))) {
					bits >>= i;
					shift += i;
				}
			}
			return from + shift;
		}
		from = (from | 63) + 1;
	}
	return 0;
}

/* Flows whose wait is over get a turn again. */
SUBPROGRAM int wheel_turn(or_u32 number, or_u64 now)
{
	struct instance *of = instance_at(number);
	or_u64 slot, today = now >> WHEEL_SHIFT;
	or_u32 i, j;

	if (!of)
		return 0;
	or_for(i, GATE_PASSES) {
		or_u32 index, last, at;
		or_u64 earliest = ~0ULL;

		slot = wheel_first(number, of->looked_at);
		if (!slot || slot > today) {
			of->looked_at = today;
			break;
		}
		of->looked_at = slot;
		at = slot & (WHEEL_SLOTS - 1);
		index = of->places[PLACE_WHEEL + at].first;
		last = of->places[PLACE_WHEEL + at].last;
		or_for(j, GATE_PASSES) {
			struct queue *f = index ? queue_at(number, index) : 0;
			or_u32 next;

			if (!f)
				break;
			next = index == last ? 0 : f->next;
			if (f->until <= now) {
				wheel_remove(number, index);
			} else if (f->until >> WHEEL_SHIFT != slot) {
				wheel_remove(number, index);
				wheel_add(number, index, f->until, now);
			} else if (f->until < earliest) {
				earliest = f->until;
			}
			index = next;
		}
		/* So many at once: the others in the next turn, at once. */
		if (index) {
			of->looked_at = slot;
			of->earliest[at] = now;
			break;
		}
		if (slot == today) {
			of->earliest[at] = earliest;
			break;
		}
		/* Who is there now waits for nearly a whole turn. */
		if (of->places[PLACE_WHEEL + at].first)
			of->looked_at = slot + 1;
	}
	return 0;
}

/* The decision: for how long a packet's flow has to wait. */
OR_INLINE or_u32 gate_ask(struct instance *of, struct sk_buff *skb, or_u64 now)
{
	struct or_skb packet = { .skb = skb, .room = (or_u8 *)of->room };

	if (bpf_dynptr_from_skb(skb, 0, &packet.data))
		return 0;
	return sender_departs(&packet, OR_MODE_ENFORCE, now);
}

/* When the flow's first packet leaves; LATER if too much was asked already. */
#define LATER (~0ULL)
OR_INLINE or_u64 gate_opens(struct instance *of, const struct or_limits *l, or_u32 index, struct queue *f,
			    struct sk_buff *skb, or_u64 now)
{
	or_u64 at = gate_departure(&f->gate, skb->tstamp, now, &of->gate.stats);
	or_u32 wait;

	if (at > now || index == REST)
		return at;
	if (of->questions++ == GATE_QUESTIONS)
		return LATER;
	wait = gate_ask(of, skb, now);
	return wait ? gate_held(&f->gate, wait, now, l->max_hold, &of->gate.stats) : now;
}

/* Bytes a second at which the packet's flow goes on after a hold; 0: as fast as it can. */
OR_INLINE or_u64 gate_rate(const struct sk_buff *skb, const struct or_limits *l)
{
	struct sock *sk = skb->sk;
	or_u64 rate;

	if (!l->pacing || !sk || sk->__sk_common.skc_state == TCP_TIME_WAIT_STATE ||
	    sk->__sk_common.skc_state == TCP_NEW_SYN_RECV_STATE)
		return 0;
	rate = sk->sk_pacing_rate;
	return rate == ~0ULL ? 0 : rate;
}

OR_INLINE void queue_retire(struct instance *of, or_u32 number, or_u32 index, struct queue *f, or_u64 now)
{
	f->idle_since = now;
	of->gate.stats.idle_flows += index != REST;
	list_move(of, number, index, f, index == REST ? PLACE_REST : PLACE_IDLE);
}

SEC("struct_ops/onramp_dequeue")
struct sk_buff *BPF_PROG(onramp_dequeue, struct Qdisc *sch)
{
	or_u32 number = sch->limit - 1, zero = 0, more = 1, quantum, i;
	struct or_limits *l = bpf_map_lookup_elem(&limits, &zero);
	struct instance *of = instance_at(number);
	struct sk_buff *leaves = 0;
	or_u64 now, slot;

	if (!of || !l || !sch->q.qlen)
		return 0;
	quantum = quantum_of(of, l);
	now = bpf_ktime_get_ns();
	if (of->gate.stats.throttled_flows)
		wheel_turn(number, now);
	of->questions = 0;

	or_for(i, GATE_PASSES) {
		or_u32 is_new = !!of->places[PLACE_NEW].first, at;
		or_u32 index = of->places[is_new ? PLACE_NEW : PLACE_OLD].first;
		struct queue *f = index ? queue_at(number, index) : 0;
		struct sk_buff *skb;
		struct kept *k;
		or_u64 when;
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
		if (!f->last_ack) {
			when = gate_opens(of, l, index, f, skb, now);
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
		f->head = k->next;
		f->gate.credit -= k->length;
		f->packets--;
		if (f->last_ack) {
			if (f->last_ack == at)
				f->last_ack = 0;
			of->gate.stats.acks_first += !!f->packets;
		} else {
			gate_leaves(&f->gate, k->length, gate_rate(skb, l), now, l->max_hold, &of->gate.stats);
		}
		sch->q.qlen--;
		sch->qstats.backlog -= k->length;
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
	slot = of->gate.stats.throttled_flows ? wheel_first(number, of->looked_at) : 0;
	if (slot)
		bpf_qdisc_watchdog_schedule(sch, of->earliest[slot & (WHEEL_SLOTS - 1)], 0);
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
	for (at = 0; at < WHEEL_SLOTS / 64; at++)
		of->filled[at] = 0;
	or_for(at, qdisc_flows) {
		or_u32 index = number * qdisc_flows + (at & (qdisc_flows - 1));
		or_u32 *bucket = bpf_map_lookup_elem(&buckets, &index);

		if (bucket)
			*bucket = 0;
	}
	of->free_flow = 0;
	of->fresh_flow = REST + 1;
	of->free_packet = 0;
	of->fresh_packet = 1;
	of->looked_at = bpf_ktime_get_ns() >> WHEEL_SHIFT;
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
