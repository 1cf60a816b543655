/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Probes that come in are answered; answers and follow-ups go to the agent. */
#ifndef PROBED_H
#define PROBED_H

/* Sends the packet back as it is, by its addresses: Ethernet's and IP's. The ports are the same. */
OR_INLINE int probed_turn_back(struct __sk_buff *skb, const struct or_packet *packet)
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

OR_INLINE int probed_answers(struct __sk_buff *skb, const struct or_packet *packet, const struct or_config *config,
			     const struct or_peer *peer, struct orprobe *probe, or_u64 now)
{
	probe->kind = ORPROBE_ANSWER;
	probe->received = clock_arrival(config, now);
	probe->returned = 0;
	/* Else it gets one with its time. */
	probe->tag = config->flags & OR_FOLLOW_UP ?
			     prober_tag(probe, &packet->flow.destination, &packet->flow.source, peer->key) : 0;
	if (prober_write(skb, packet, probe))
		return TC_ACT_SHOT;
	return probed_turn_back(skb, packet);
}

OR_INLINE or_u32 probed_is_by(const struct orprobe *probe, const struct or_packet *packet, const or_u64 *key)
{
	return prober_tag(probe, &packet->flow.source, &packet->flow.destination, key) == probe->tag;
}

/* What becomes of the packet: as for OR-ACKs. */
OR_INLINE int probed_arrives(struct __sk_buff *skb, const struct or_packet *packet,
			     const struct or_config *config, struct orprobe *probe, or_u64 now)
{
	struct or_peer *peer = bpf_map_lookup_elem(&peers, &packet->flow.source);

	if (!peer || (!probed_is_by(probe, packet, peer->key) &&
		      (!(peer->flags & OR_PEER_TWO_KEYS) || !probed_is_by(probe, packet, peer->other_key)))) {
		count(OR_PROBES_REFUSED, 1);
		return TC_ACT_UNSPEC;
	}
	if (probe->kind == ORPROBE_PROBE)
		return probed_answers(skb, packet, config, peer, probe, now);
	if (!prober_report(probe, &packet->flow.source, clock_arrival(config, now), 1) &&
	    probe->kind == ORPROBE_ANSWER)
		count(OR_PROBES_RETURNED, 1);
	return TC_ACT_SHOT;
}

#endif
