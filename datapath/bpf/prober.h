/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probes compare clocks. The agent makes them; here they get their time stamps, at the
 * places where data packets get theirs, and are answered.
 */
#ifndef PROBER_H
#define PROBER_H

/* Reads a probe or an answer. Returns whether the packet is one, whosever. */
OR_INLINE or_u32 prober_read(struct __sk_buff *skb, const struct or_packet *packet,
			     const struct or_config *config, struct orprobe *probe)
{
	or_u8 payload[ORPROBE_LEN];

	return packet->payload == ORPROBE_LEN && packet->flow.sport == config->port &&
	       !bpf_skb_load_bytes(skb, packet->payload_at, payload, ORPROBE_LEN) &&
	       orprobe_parse(payload, probe);
}

OR_INLINE long prober_write(struct __sk_buff *skb, const struct or_packet *packet, const struct orprobe *probe)
{
	or_u8 payload[ORPROBE_LEN];

	orprobe_write(payload, probe);
	return bpf_skb_store_bytes(skb, packet->payload_at, payload, ORPROBE_LEN, BPF_F_INVALIDATE_HASH);
}

OR_INLINE or_u64 prober_tag(const struct orprobe *probe, const struct or_packet *packet, const struct or_peer *peer)
{
	return orprobe_tag(probe, &packet->flow.source, &packet->flow.destination, peer->key[0], peer->key[1]);
}

/* A probe or an answer leaves; once it has a tag, it only passes through this host. */
OR_INLINE void prober_departs(struct __sk_buff *skb, const struct or_packet *packet,
			      const struct or_config *config, or_u64 now)
{
	struct orprobe probe;
	struct or_peer *peer;

	if (!prober_read(skb, packet, config, &probe) || probe.tag)
		return;
	peer = bpf_map_lookup_elem(&peers, &packet->flow.destination);
	if (!peer)
		return;
	if (probe.kind == ORPROBE_PROBE)
		probe.sent = clock_departure(config, now);
	else
		probe.returned = clock_departure(config, now);
	probe.tag = prober_tag(&probe, packet, peer);
	if (!prober_write(skb, packet, &probe))
		count(probe.kind == ORPROBE_PROBE ? OR_PROBES_SENT : OR_PROBES_ANSWERED, 1);
}

/* Sends the packet back as it is, by its addresses: Ethernet's and IP's. The ports are the same. */
OR_INLINE int prober_turn_back(struct __sk_buff *skb, const struct or_packet *packet)
{
	or_u32 v4 = address_is_v4(&packet->flow.source), at = ETH_HLEN + (v4 ? 12 : 8);
	or_u8 from[ETH_ALEN], to[ETH_ALEN];

	if (bpf_skb_load_bytes(skb, 0, to, ETH_ALEN) || bpf_skb_load_bytes(skb, ETH_ALEN, from, ETH_ALEN) ||
	    bpf_skb_store_bytes(skb, 0, from, ETH_ALEN, 0) || bpf_skb_store_bytes(skb, ETH_ALEN, to, ETH_ALEN, 0))
		return TC_ACT_SHOT;
	/* No checksum changes: IP's sums both addresses, and UDP has none. */
	if (v4) {
		if (bpf_skb_store_bytes(skb, at, &packet->flow.destination.word[3], 4, 0) ||
		    bpf_skb_store_bytes(skb, at + 4, &packet->flow.source.word[3], 4, 0))
			return TC_ACT_SHOT;
	} else if (bpf_skb_store_bytes(skb, at, &packet->flow.destination, 16, 0) ||
		   bpf_skb_store_bytes(skb, at + 16, &packet->flow.source, 16, 0)) {
		return TC_ACT_SHOT;
	}
	return bpf_redirect(skb->ifindex, 0);
}

OR_INLINE void prober_report(const struct orprobe *probe, const struct or_packet *packet, or_u64 came_back)
{
	struct or_exchange exchange = {
		.peer = packet->flow.source,
		.sent = probe->sent,
		.received = probe->received,
		.returned = probe->returned,
		.came_back = came_back,
		.pair = probe->pair,
		.second = probe->second,
	};

	/* The agent looks when its window ends: nobody has to be woken. */
	if (bpf_ringbuf_output(&exchanges, &exchange, sizeof(exchange), BPF_RB_NO_WAKEUP))
		count(OR_TABLE_FULL, 1);
	else
		count(OR_PROBES_RETURNED, 1);
}

/* A probe or an answer has come in. Returns what becomes of the packet: as for OR-ACKs. */
OR_INLINE int prober_arrives(struct __sk_buff *skb, const struct or_packet *packet,
			     const struct or_config *config, const struct orprobe *probe, or_u64 now)
{
	struct or_peer *peer = bpf_map_lookup_elem(&peers, &packet->flow.source);
	struct orprobe answer = *probe;

	if (!peer || prober_tag(probe, packet, peer) != probe->tag) {
		count(OR_PROBES_REFUSED, 1);
		return TC_ACT_UNSPEC;
	}
	if (probe->kind == ORPROBE_ANSWER) {
		prober_report(probe, packet, clock_arrival(config, now));
		return TC_ACT_SHOT;
	}
	answer.kind = ORPROBE_ANSWER;
	answer.received = clock_arrival(config, now);
	answer.returned = 0;
	answer.tag = 0;
	if (prober_write(skb, packet, &answer))
		return TC_ACT_SHOT;
	return prober_turn_back(skb, packet);
}

#endif
