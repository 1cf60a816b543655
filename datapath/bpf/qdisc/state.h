/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the gate's program keeps: instances, flows and packets, in maps. */
#ifndef QDISC_STATE_H
#define QDISC_STATE_H

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
/* See wheel.h. */
#define WHEEL_SHIFT 11
#define WHEEL_LOG 10
#define WHEEL_SLOTS (1 << WHEEL_LOG)
#define WHEEL_LEVELS 2
#define PLACES (PLACE_WHEEL + WHEEL_LEVELS * WHEEL_SLOTS)
/* The flow of all packets for which there is no room for another. */
#define REST 1
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
 * struct bucket - flows whose keys have one hash
 * @first: of them
 * @flows: how many there are
 * @shared: packets of such keys in REST
 */
struct bucket {
	or_u32 first;
	or_u32 flows;
	or_u32 shared;
};

/**
 * struct level - slots of the wheel of one length
 * @from: slots before this one are empty; as time, in units of a slot
 * @filled: slots that have flows, a bit each
 * @words: words of @filled that are not 0, a bit each
 */
struct level {
	or_u64 from;
	or_u64 filled[WHEEL_SLOTS / 64];
	or_u32 words;
};

/**
 * struct instance - a queueing discipline
 * @gate: what the agent sees of it
 * @last: when the last dequeue was that found packets
 * @questions: asked in this dequeue
 * @free_flow: first of the flows that were given back, linked by their chain
 * @fresh_flow: the first that was never used
 * @free_packet: first of the packets' places that were given back
 * @fresh_packet: the first that was never used
 * @granted: memory it has of what all have taken
 * @pointer: what was one is a number when it is read here
 * @room: for copies of parts of the packet that is asked about
 * @places: lists of flows
 * @earliest: until then the wheel has nothing to do
 * @levels: of the wheel, with short slots and with long ones
 */
struct instance {
	struct or_gate gate;
	or_u64 last;
	or_u32 questions;
	or_u32 free_flow;
	or_u32 fresh_flow;
	or_u32 free_packet;
	or_u32 fresh_packet;
	or_u64 granted;
	volatile or_u64 pointer;
	or_u64 room[SKB_ROOM / 8];
	struct ends places[PLACES];
	or_u64 earliest;
	struct level levels[WHEEL_LEVELS];
};

/**
 * struct kept - a packet
 * @skb: the kernel's
 * @next: in its flow
 * @note: the bucket of its key, if it is in REST; else when it came
 */
struct kept {
	struct sk_buff __kptr *skb;
	or_u32 next;
	or_u32 note;
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
	__type(value, struct bucket);
} buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, or_u32);
	__type(value, struct or_limits);
} limits SEC(".maps");

/* Memory that all instances have of their limit, see GATE_PIECE. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, or_u32);
	__type(value, or_u64);
} taken SEC(".maps");

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

OR_INLINE or_u32 hash_of(or_u64 key)
{
	return key * 0x9e3779b97f4a7c15ULL >> 32;
}

OR_INLINE struct bucket *bucket_at(or_u32 number, or_u32 hash)
{
	or_u32 at = number * qdisc_flows + (hash & (qdisc_flows - 1));

	return bpf_map_lookup_elem(&buckets, &at);
}

OR_INLINE or_u32 memory_take(struct instance *of, or_u64 *all, or_u64 limit, or_u64 memory)
{
	if (__sync_fetch_and_add(all, memory) + memory > limit) {
		__sync_fetch_and_add(all, -memory);
		return 0;
	}
	of->granted += memory;
	return 1;
}

/* Whether so much memory may be used, which is more than was granted, or than the limit is now. */
SUBPROGRAM or_u32 memory_grow(or_u32 number, or_u64 memory)
{
	or_u32 zero = 0;
	struct or_limits *l = bpf_map_lookup_elem(&limits, &zero);
	or_u64 *all = bpf_map_lookup_elem(&taken, &zero);
	struct instance *of = instance_at(number);

	if (!of || !l || !all || memory > l->bytes)
		return 0;
	return memory_take(of, all, l->bytes, gate_asks(memory, of->granted)) ||
	       memory_take(of, all, l->bytes, memory - of->granted);
}

/* Gives back what is not needed any more. */
SUBPROGRAM int memory_give(or_u32 number, or_u64 memory)
{
	struct instance *of = instance_at(number);
	or_u32 zero = 0;
	or_u64 *all = bpf_map_lookup_elem(&taken, &zero);

	if (of && all) {
		of->granted -= memory;
		__sync_fetch_and_add(all, -memory);
	}
	return 0;
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

#endif
