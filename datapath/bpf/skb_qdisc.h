/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet as the eBPF queueing discipline sees it. Its counterpart: skb_tc.h. */
#ifndef SKB_QDISC_H
#define SKB_QDISC_H

/* There is nothing with which a program could. */
#define SKB_CAN_BE_CUT 0
/* A program's stack has room for 512 bytes in all: these are elsewhere. */
#define SKB_ROOM 128
/**
 * struct or_skb - a packet
 * @skb: the kernel's
 * @data: its bytes
 * @room: SKB_ROOM bytes for copies of some of them
 */
struct or_skb {
	struct sk_buff *skb;
	struct bpf_dynptr data;
	or_u8 *room;
};

OR_INLINE or_u32 skb_length(const struct or_skb *skb)
{
	return skb->skb->len;
}

OR_INLINE const struct skb_shared_info *skb_shared(const struct or_skb *skb)
{
	return bpf_rdonly_cast(skb->skb->head + skb->skb->end, bpf_core_type_id_kernel(struct skb_shared_info));
}

OR_INLINE or_u32 skb_gso_size(const struct or_skb *skb)
{
	return skb_shared(skb)->gso_size;
}

OR_INLINE or_u32 skb_gso_segs(const struct or_skb *skb)
{
	return skb_shared(skb)->gso_segs;
}

/* See skb_tc.h. */
OR_INLINE or_u32 skb_turned_back(const struct or_skb *skb)
{
	return skb->skb->skb_iif == skb->skb->dev->ifindex;
}

/* See skb_tc.h. */
#define SKB_ARGUMENT struct sk_buff *skb __attribute__((btf_decl_tag("arg:trusted")))
#define skb_argument(skb) ((skb)->skb)

/* See skb_tc.h; there is no such helper for a queueing discipline. */
OR_INLINE or_u64 skb_cgroup_above(struct sk_buff *skb, or_u32 level)
{
	struct sock *sk = skb->sk;
	struct cgroup *at;
	or_u32 up;

	if (!bpf_core_field_exists(struct sock_cgroup_data, cgroup) || !sk_is_full(sk))
		return 0;
	at = sk->sk_cgrp_data.cgroup;
	or_for(up, CGROUP_DEPTH) {
		if (!at || at->level < (int)level)
			break;
		if (at->level == (int)level)
			return at->kn->id;
		at = at->self.parent->cgroup;
	}
	return 0;
}

/* Room for @own until its headers are read again. */
#define skb_room(skb, own)                                                    \
	({                                                                    \
		_Static_assert(sizeof(*(own)) <= SKB_ROOM, "there is less room"); \
		(void *)(skb)->room;                                          \
	})

/* Copies bytes out of it; 0 if they are there. */
OR_INLINE long skb_read(struct or_skb *skb, or_u32 at, void *to, or_u32 bytes)
{
	return bpf_dynptr_read(to, bytes, &skb->data, at, 0);
}

/* A queueing discipline may not. */
OR_INLINE long skb_write(struct or_skb *skb, or_u32 at, const void *from, or_u32 bytes)
{
	return -1;
}

/* Where its headers are, at least @least bytes, at most @most; @at is 0 if there are fewer. */
OR_INLINE void skb_headers(struct or_skb *skb, or_u32 least, or_u32 most, const void **at, const void **end)
{
	or_u32 present = skb_length(skb);

	if (present >= most) {
		*at = bpf_dynptr_slice(&skb->data, 0, skb->room, PACKET_HEADERS);
		if (*at)
			*end = *at + PACKET_HEADERS;
		return;
	}
	*at = 0;
	if (present < least || bpf_dynptr_read(skb->room, present, &skb->data, 0, 0))
		return;
	*at = skb->room;
	*end = *at + present;
}

#endif
