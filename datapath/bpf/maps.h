/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps; their contents are described in onramp_abi.h. */
#ifndef MAPS_H
#define MAPS_H

/**
 * struct scratch - the packet being acknowledged, on its way from another program
 *   to the acker, which the kernel calls in between on the same CPU
 * @ack: what the OR-ACK will say
 * @key: of its tag
 * @ifindex: where it leaves; 0: nothing to acknowledge
 * @port: both of its UDP ports
 * @class: DSCP and ECN of the data packet; the OR-ACK takes the same DSCP
 * @away: the clone is of a packet that leaves, not of the data packet
 */
struct scratch {
	struct orack ack;
	or_u64 key[2];
	or_u32 ifindex;
	or_u16 port;
	or_u8 class;
	or_u8 away;
};

/**
 * struct heard - what a flow has heard of us
 * @at: when its last OR-ACK was sent, or became due
 * @received: when the packet arrived whose OR-ACK is due, by the fleet's time; 0: none is
 * @seq: what the OR-ACK names
 * @class: see struct scratch
 */
struct heard {
	or_u64 at;
	or_u64 received;
	or_u32 seq;
	or_u32 class;
};

/* The agent may choose other sizes for flows, stamps, peers and paths. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, or_u32);
	__type(value, struct or_config);
} config SEC(".maps");

/*
 * Which of the two is in force. The agent writes the other one, then this: an array's
 * values are written over in place, and half a new clock is worse than an old one.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, or_u32);
	__type(value, or_u32);
} current SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, or_u32);
	__type(value, or_u64);
} alive SEC(".maps");

/* Not preallocated: a value that is replaced stays whole for who is reading it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct or_address);
	__type(value, struct or_peer);
} peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, or_u32);
	__type(value, struct or_path);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct or_tuple);
	__type(value, struct or_flow);
} flows SEC(".maps");

/*
 * Serialises the changes of a flow: the gate and an arriving OR-ACK may be on two CPUs.
 * An LRU map's own values may not have locks; flows share these, by hash. A cache line
 * each, so that CPUs with different flows do not wait for each other.
 */
#define FLOW_LOCKS 1024
struct flow_lock {
	struct bpf_spin_lock lock;
	or_u32 rest_of_line[15];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_LOCKS);
	__type(key, or_u32);
	__type(value, struct flow_lock);
} locks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 131072);
	__type(key, struct or_stamp_key);
	__type(value, struct onramp_stamp);
} stamps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct or_tuple);
	__type(value, struct heard);
} heard_of SEC(".maps");

struct counted {
	or_u64 of[OR_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, or_u32);
	__type(value, struct counted);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, or_u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} exchanges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, OR_SCOPES);
	__type(key, or_u32);
	__type(value, struct or_scope);
} scopes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OR_SCOPES * (OR_RULES + 1));
	__type(key, or_u32);
	__type(value, struct or_scoped);
} scoped SEC(".maps");

OR_INLINE void count(enum or_counter counter, or_u64 n)
{
	or_u32 zero = 0;
	struct counted *counted = bpf_map_lookup_elem(&counters, &zero);

	if (counted)
		counted->of[counter] += n;
}

/* A data packet of @bytes left, with so many stamps kept. */
OR_INLINE void count_sent(or_u32 bytes, or_u32 stamps)
{
	or_u32 zero = 0;
	struct counted *counted = bpf_map_lookup_elem(&counters, &zero);

	if (!counted)
		return;
	counted->of[OR_SENT]++;
	counted->of[OR_SENT_BYTES] += bytes;
	counted->of[OR_STAMPED] += stamps;
}

OR_INLINE struct flow_lock *flow_lock(const struct or_tuple *t)
{
	or_u32 ports = (or_u32)t->sport << 16 | t->dport;
	or_u32 index = (ports ^ t->source.word[3] ^ t->destination.word[3]) * 0x9e3779b1U >> 22;

	return bpf_map_lookup_elem(&locks, &index);
}

/* The configuration, if On-Ramp is on and its agent alive. */
OR_INLINE struct or_config *config_at(or_u64 now)
{
	or_u32 zero = 0;
	or_u64 *until = bpf_map_lookup_elem(&alive, &zero);
	or_u32 *slot = bpf_map_lookup_elem(&current, &zero);
	struct or_config *c = slot ? bpf_map_lookup_elem(&config, slot) : 0;

	return c && until && now <= *until && c->mode != OR_MODE_OFF ? c : 0;
}

#endif
