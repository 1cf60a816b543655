// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a host sends by TCP, for `onrampctl record`: how much went whither and when, and no payload.
 *
 * A flow here is what an application writes without a pause: it ends with the last byte of a write (PSH) if nothing more
 * had been written when that left, unless more leaves within OR_BUSY_GAP.
 *
 * Where the socket is not seen, as of a container's packets, which come through another interface, packets must tell. They
 * tell when a connection is busy: from the first byte that is sent while nothing is outstanding until all is acknowledged.
 * One acknowledgement may be for a whole window, and the next one leaves at once: that is still the same flow. And where a
 * write has ended (PSH), and more leaves later, though no acknowledgement has called for it: that is the next flow.
 *
 * Data and acknowledgements of a connection may be seen on two CPUs at once, without a lock: at worst a flow's last
 * packets are told of as another flow.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "record_abi.h"
#include "packet.h"

struct sock {
	int sk_wmem_queued;
	int sk_sndbuf;
} __attribute__((preserve_access_index));

struct tcp_sock {
	or_u32 write_seq;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct or_tuple);
	__type(value, struct or_busy);
} busy SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct or_tuple);
	__type(value, struct or_came);
} came SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} recorded SEC(".maps");

/* UDP port of the fleet's own probes and OR-ACKs, which are no traffic of an application's; 0: none. */
const volatile or_u32 record_own_port = 0;

struct record_counted {
	or_u64 of[OR_RECORD_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, or_u32);
	__type(value, struct record_counted);
} record_counters SEC(".maps");

OR_INLINE void record_count(enum or_record_counter counter, or_u64 n)
{
	or_u32 zero = 0;
	struct record_counted *counted = bpf_map_lookup_elem(&record_counters, &zero);

	if (counted)
		counted->of[counter] += n;
}

OR_INLINE void record_end(const struct or_tuple *flow, struct or_busy *present, or_u64 now, or_u32 how)
{
	struct or_recorded *row = bpf_ringbuf_reserve(&recorded, sizeof(*row), 0);

	present->state = OR_BUSY_NOT;
	if (!row) {
		record_count(OR_RECORD_LOST, 1);
		return;
	}
	row->flow = *flow;
	row->how = how;
	row->reserved = 0;
	row->ended = now;
	row->busy = *present;
	/* Who reads looks every now and then. */
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
}

OR_INLINE or_u32 record_goes_on(const struct or_busy *present, or_u64 now)
{
	if (present->state == OR_BUSY_NOT)
		return 0;
	if (present->flags & OR_BUSY_SEEN)
		return !(present->flags & OR_BUSY_DRAINED && now - present->last > OR_BUSY_GAP);
	if (present->state == OR_BUSY_ACKED)
		return !(present->flags & OR_BUSY_ANSWERED) && now - present->acked < OR_BUSY_GAP;
	return present->state == OR_BUSY_OPEN && !(present->flags & OR_BUSY_PUSHED &&
	       now - present->last > OR_BUSY_GAP && now - present->heard > OR_BUSY_GAP);
}

/* Nothing beyond what was seen; a number that is far off is of another connection with the same ports. */
OR_INLINE or_u32 record_is_old(int ahead)
{
	return ahead <= 0 && ahead > -(1 << 30);
}

OR_INLINE struct or_busy *record_connection(const struct or_packet *packet)
{
	struct or_busy fresh = { .next = packet->seq }, *present = bpf_map_lookup_elem(&busy, &packet->flow);

	if (present)
		return present;
	bpf_map_update_elem(&busy, &packet->flow, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&busy, &packet->flow);
}

/* OR_BUSY_*, of a packet that ends with the byte before @end. */
OR_INLINE or_u32 record_written(struct __sk_buff *skb, const struct or_packet *packet, or_u32 end)
{
	or_u32 flags = packet->push ? OR_BUSY_PUSHED : 0;
	struct bpf_sock *sk = skb->sk;
	struct tcp_sock *tcp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	if (!tcp)
		return flags;
	if (!packet->push || tcp->write_seq != end)
		return flags | OR_BUSY_SEEN;
	/* Without room the application may be about to write more: packets tell. */
	if (((struct sock *)tcp)->sk_wmem_queued >= ((struct sock *)tcp)->sk_sndbuf)
		return flags;
	return flags | OR_BUSY_SEEN | OR_BUSY_DRAINED;
}

OR_INLINE void record_data(struct __sk_buff *skb, const struct or_packet *packet, or_u64 now)
{
	struct or_busy *present = record_connection(packet);
	or_u32 end = packet->seq + packet->payload, segments = skb->gso_segs;
	int ahead;

	if (!present)
		return;
	ahead = (int)(end - present->next);
	/* Sent again; after all was acknowledged it begins nothing. */
	if (record_is_old(ahead)) {
		if (present->state == OR_BUSY_OPEN)
			present->again += packet->payload;
		return;
	}
	if (!record_goes_on(present, now)) {
		if (present->state == OR_BUSY_ACKED)
			record_end(&packet->flow, present, present->acked, OR_ENDED_ACKED);
		else if (present->state == OR_BUSY_OPEN)
			record_end(&packet->flow, present, present->last, OR_ENDED_FOLLOWED);
		*present = (struct or_busy){ .began = now, .heard = present->heard, .next = packet->seq };
		ahead = packet->payload;
	}
	present->state = OR_BUSY_OPEN;
	/* What was not seen between counts too: it was sent. */
	present->bytes += ahead;
	present->next = end;
	present->flags &= ~(OR_BUSY_PUSHED | OR_BUSY_SEEN | OR_BUSY_DRAINED);
	present->flags |= record_written(skb, packet, end);
	if (ahead < (int)packet->payload)
		present->again += packet->payload - ahead;
	present->packets += segments ? segments : 1;
	present->last = now;
}

OR_INLINE void record_ack(const struct or_tuple *flow, struct or_busy *present, or_u32 ack, or_u64 now)
{
	if (present->state != OR_BUSY_OPEN || (int)(ack - present->next) < 0)
		return;
	present->state = OR_BUSY_ACKED;
	present->acked = now;
	present->flags &= ~OR_BUSY_ANSWERED;
	if (present->flags & OR_BUSY_CLOSING)
		record_end(flow, present, now, OR_ENDED_ACKED);
}

OR_INLINE void record_came(const struct or_tuple *flow, struct or_came *present)
{
	struct or_busy told = { .next = present->next };

	if (!present->last)
		return;
	record_end(flow, &told, present->last, OR_ENDED_CAME);
	present->last = 0;
}

/* Most that IPv6 and TCP with time stamps take of a packet. */
#define RECORD_HEADERS 72

/*
 * Linux marks the ends of segments amid a long write as if they ended one (PSH), tens of thousands a second. They are of
 * full packets, the last one of a write hardly ever is.
 */
OR_INLINE or_u32 record_is_amid(struct __sk_buff *skb, const struct or_packet *packet, or_u32 most)
{
	or_u32 mtu = 0;

	return most && packet->payload % most == 0 && bpf_check_mtu(skb, 0, &mtu, 0, 0) >= 0 && most + RECORD_HEADERS >= mtu;
}

OR_INLINE void record_arrival(struct __sk_buff *skb, const struct or_packet *packet, or_u32 closes, or_u64 now)
{
	struct or_came fresh = { .next = packet->seq }, *present = bpf_map_lookup_elem(&came, &packet->flow);
	or_u32 end = packet->seq + packet->payload, segment = skb->gso_size ? skb->gso_size : packet->payload;

	if (!present) {
		bpf_map_update_elem(&came, &packet->flow, &fresh, BPF_NOEXIST);
		present = bpf_map_lookup_elem(&came, &packet->flow);
		if (!present)
			return;
	}
	if (packet->payload) {
		if (now - present->last > OR_CAME_GAP)
			record_came(&packet->flow, present);
		/* What fills a gap comes later, and all is there by then. */
		if (!record_is_old((int)(end - present->next)))
			present->next = end;
		present->last = now;
		if (segment > present->most)
			present->most = segment;
	}
	if (closes || (packet->push && !record_is_amid(skb, packet, present->most)))
		record_came(&packet->flow, present);
}

/* The headers of TCP, which has been found to be there. */
OR_INLINE long record_tcp(struct __sk_buff *skb, const struct or_packet *packet, struct tcphdr *tcp)
{
	or_u32 ip = address_is_v4(&packet->flow.source) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);

	return bpf_skb_load_bytes(skb, ETH_HLEN + ip, tcp, sizeof(*tcp));
}

/* At TC egress. */
SEC("classifier")
int onramp_record_out(struct __sk_buff *skb)
{
	or_u64 now = bpf_ktime_get_ns();
	struct or_packet packet;
	struct or_busy *present;
	struct tcphdr tcp;

	if (!packet_parse(skb, &packet)) {
		record_count(OR_RECORD_UNPARSED, 1);
		return TC_ACT_UNSPEC;
	}
	if (packet.flow.protocol == IPPROTO_UDP) {
		if (record_own_port && (packet.flow.sport == record_own_port || packet.flow.dport == record_own_port))
			return TC_ACT_UNSPEC;
		record_count(OR_RECORD_UDP, 1);
		record_count(OR_RECORD_UDP_BYTES, packet.payload);
		return TC_ACT_UNSPEC;
	}
	if (packet.payload)
		record_data(skb, &packet, now);
	if (record_tcp(skb, &packet, &tcp) || !(tcp.fin || tcp.rst))
		return TC_ACT_UNSPEC;
	present = bpf_map_lookup_elem(&busy, &packet.flow);
	if (!present)
		return TC_ACT_UNSPEC;
	present->flags |= OR_BUSY_CLOSING;
	if (present->state == OR_BUSY_ACKED)
		record_end(&packet.flow, present, present->acked, OR_ENDED_ACKED);
	else if (present->state == OR_BUSY_OPEN && tcp.rst)
		record_end(&packet.flow, present, now, OR_ENDED_RESET);
	return TC_ACT_UNSPEC;
}

/* At TC ingress: what comes back. */
SEC("classifier")
int onramp_record_in(struct __sk_buff *skb)
{
	or_u64 now = bpf_ktime_get_ns();
	struct or_packet packet;
	struct or_busy *present;
	struct or_tuple sent;
	struct tcphdr tcp;

	if (!packet_parse(skb, &packet) || packet.flow.protocol != IPPROTO_TCP || record_tcp(skb, &packet, &tcp))
		return TC_ACT_UNSPEC;
	if (packet.payload || tcp.fin)
		record_arrival(skb, &packet, tcp.fin, now);
	sent = (struct or_tuple){
		.source = packet.flow.destination, .destination = packet.flow.source,
		.sport = packet.flow.dport, .dport = packet.flow.sport, .protocol = IPPROTO_TCP,
	};
	present = bpf_map_lookup_elem(&busy, &sent);
	if (!present)
		return TC_ACT_UNSPEC;
	present->heard = now;
	if (tcp.ack)
		record_ack(&sent, present, bpf_ntohl(tcp.ack_seq), now);
	if (packet.payload)
		present->flags |= OR_BUSY_ANSWERED;
	if (tcp.rst && present->state == OR_BUSY_OPEN)
		record_end(&sent, present, now, OR_ENDED_RESET);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
