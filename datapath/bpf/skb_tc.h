/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet as programs at TC, and the one that sch_onramp runs, see it. Its counterpart: skb_qdisc.h. */
#ifndef SKB_TC_H
#define SKB_TC_H

#include <bpf/bpf_core_read.h>

#define or_skb __sk_buff
/* The gate's module can cut a segment into packets. */
#define SKB_CAN_BE_CUT 1
/* A loop with a bound. */
#define or_for(i, times) for ((i) = 0; (i) < (times); (i)++)

OR_INLINE or_u32 skb_length(const struct or_skb *skb)
{
	return skb->len;
}

OR_INLINE or_u32 skb_gso_size(const struct or_skb *skb)
{
	return skb->gso_size;
}

OR_INLINE or_u32 skb_gso_segs(const struct or_skb *skb)
{
	return skb->gso_segs;
}

/* It came in where it leaves: turned back by one of our programs, not made on this host. */
OR_INLINE or_u32 skb_turned_back(const struct or_skb *skb)
{
	return skb->ingress_ifindex == skb->ifindex;
}

/* What a function takes that the verifier follows by itself. */
#define SKB_ARGUMENT struct __sk_buff *skb
#define skb_argument(skb) (skb)

struct sock_cgroup_data {
	struct cgroup *cgroup;
} __attribute__((preserve_access_index));

/* Id of the cgroup at a depth above that of its socket, or of that itself; 0 if there is none. */
OR_INLINE or_u64 skb_cgroup_above(SKB_ARGUMENT, or_u32 level)
{
	/* A kernel whose sockets have none (CONFIG_SOCK_CGROUP_DATA) takes no program that asks. */
	return bpf_core_field_exists(struct sock_cgroup_data, cgroup) ? bpf_skb_ancestor_cgroup_id(skb, level) : 0;
}

/* Room for @own: it has its own. */
OR_INLINE void *skb_room(struct or_skb *skb, void *own)
{
	return own;
}

/* Copies bytes out of it; 0 if they are there. */
OR_INLINE long skb_read(struct or_skb *skb, or_u32 at, void *to, or_u32 bytes)
{
	return bpf_skb_load_bytes(skb, at, to, bytes);
}

/* Writes bytes into it; 0 if they are there. */
OR_INLINE long skb_write(struct or_skb *skb, or_u32 at, const void *from, or_u32 bytes)
{
	return bpf_skb_store_bytes(skb, at, from, bytes, BPF_F_INVALIDATE_HASH);
}

/* Where its headers are, at least @least bytes, at most @most; @at is 0 if there are fewer. */
OR_INLINE void skb_headers(struct or_skb *skb, or_u32 least, or_u32 most, const void **at, const void **end)
{
	*at = (void *)(long)skb->data;
	*end = (void *)(long)skb->data_end;
	if (*at + least <= *end)
		return;
	/* Some drivers leave all of a packet in pages. What TCP sends has its headers in front. */
	if (skb->len < least || bpf_skb_pull_data(skb, skb->len < most ? skb->len : most)) {
		*at = 0;
		return;
	}
	*at = (void *)(long)skb->data;
	*end = (void *)(long)skb->data_end;
	if (*at + least > *end)
		*at = 0;
}

#endif
