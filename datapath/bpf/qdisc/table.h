/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table: from a packet to its flow, by hash; idle flows give their place to new ones. */
#ifndef QDISC_TABLE_H
#define QDISC_TABLE_H

#define TCP_LISTEN_STATE 10
#define SOCK_STREAM_TYPE 1
/* Flows in a bucket at most. */
#define CHAIN 64
/* Idle flows that are forgotten at once. */
#define COLLECT 8

/* Takes an idle flow out of the table. */
SUBPROGRAM int queue_forget(or_u32 number, or_u32 index)
{
	struct instance *of = instance_at(number);
	struct queue *f = queue_at(number, index), *before = 0;
	struct bucket *bucket;
	or_u32 at, i;

	if (!f || !of)
		return 0;
	bucket = bucket_at(number, hash_of(f->key));
	if (!bucket)
		return 0;
	at = bucket->first;
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
		bucket->first = f->chain;
	bucket->flows--;
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

	if (sk_is_full(sk) && sk->__sk_common.skc_state != TCP_LISTEN_STATE && sk->sk_type == SOCK_STREAM_TYPE &&
	    sk->sk_protocol == IPPROTO_TCP) {
		of->pointer = (or_u64)sk;
		return of->pointer;
	}
	return (or_u64)bpf_skb_get_hash(skb) << 1 | 1;
}

/* The flow of a key: found, or made. REST if there is no room. */
SUBPROGRAM or_u32 queue_find(or_u32 number, or_u64 key, or_u32 most)
{
	struct instance *of = instance_at(number);
	struct bucket *bucket = bucket_at(number, hash_of(key));
	struct queue *f;
	or_u32 at, i;

	if (!of || !bucket)
		return REST;
	at = bucket->first;
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
	queue_collect(number, most, bpf_ktime_get_ns());
	if (bucket->flows < CHAIN && gate_has_place(of->gate.stats.flows, most, bucket->shared)) {
		at = of->free_flow;
		f = at ? queue_at(number, at) : 0;
		if (f)
			of->free_flow = f->chain;
		else if (of->fresh_flow < qdisc_flows)
			at = of->fresh_flow++;
		f = at ? queue_at(number, at) : 0;
		if (f) {
			__builtin_memset(f, 0, sizeof(*f));
			f->key = key;
			f->chain = bucket->first;
			bucket->first = at;
			bucket->flows++;
			list_add(of, number, at, f, PLACE_IDLE);
			of->gate.stats.flows++;
			of->gate.stats.idle_flows++;
			return at;
		}
	}
	of->gate.stats.no_flow++;
	return REST;
}

#endif
