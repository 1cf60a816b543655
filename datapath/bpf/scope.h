/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rules that say which packets are held. Their meaning in Rust, by which this one is tested: onrampd's src/scope.
 *
 * A packet has the same place in the gate whatever rule it matches, behind those of its flow that came before: rules change
 * only how long the gate has the flow's first packet wait. So a change of rules overtakes nothing. A packet that is
 * already waiting does so to the end of its pause (max_pause at most), is asked for again, and leaves; and those behind it
 * follow in their order.
 */
#ifndef SCOPE_H
#define SCOPE_H

/* Of what scope_match() returns: the packet is held. Below it, the rule's number; OR_RULES: none. */
#define SCOPE_HOLDS 0x100
#define SCOPE_RULE 0xff

/**
 * struct scope - the rules that a packet matches, as scope_match() returns them
 * @tables: see struct or_config
 * @rule: of those in force
 * @dry_run: of those of a dry run
 */
struct scope {
	or_u32 tables;
	or_u32 rule;
	or_u32 dry_run;
};

/* Not 0 where @port is not between the two. */
OR_INLINE or_u32 scope_outside(or_u32 port, const struct or_place *p)
{
	return (port - p->first | p->last - port) >> 31;
}

/* Bits in which half of an address is not in the place's network. */
OR_INLINE or_u64 scope_differs(or_u64 half, const or_u32 *network, const or_u32 *mask)
{
	return (((or_u32)half ^ network[0]) & mask[0]) | (((or_u32)(half >> 32) ^ network[1]) & mask[1]);
}

/*
 * The rule of @table that a packet matches. It goes to @first and @second, the halves of the address; the other @facts
 * are, from bit 0 on: source port, destination port, kind (see struct or_place), DSCP and ECN.
 *
 * Only numbers beside the packet: so Linux 5.10, too, verifies the loop by itself, once, whatever calls it.
 */
__attribute__((noinline)) or_u32 scope_match(SKB_ARGUMENT, or_u64 first, or_u64 second, or_u64 facts, or_u32 table)
{
	or_u32 sport = facts & 0xffff, dport = facts >> 16 & 0xffff, kind = facts >> 32 & 0xffff, dscp = facts >> 50 & 63;
	struct or_scope *scope;
	or_u32 i;

	table--;
	scope = bpf_map_lookup_elem(&scopes, &table);
	if (!scope)
		return SCOPE_HOLDS | OR_RULES;
	or_for(i, OR_PLACES) {
		const struct or_place *p;
		or_u64 differs;
		or_u32 rule;

		if (i >= OR_PLACES || i >= scope->places)
			break;
		p = &scope->place[i];
		/* Without branches, each of which the verifier would follow for each place. */
		differs = scope_differs(first, p->network.word, p->mask.word) |
			  scope_differs(second, p->network.word + 2, p->mask.word + 2) |
			  ((kind ^ p->kind) & p->kind_mask) | (scope_outside(sport, p) & scope_outside(dport, p)) |
			  (~(p->dscps >> dscp) & 1);
		if (differs || (p->cgroup && skb_cgroup_above(skb, p->level) != p->cgroup))
			continue;
		rule = p->rule & (OR_RULES - 1);
		return rule | (scope->holds >> rule & 1 ? SCOPE_HOLDS : 0);
	}
	return SCOPE_HOLDS | OR_RULES;
}

OR_INLINE or_u32 scope_ask(struct or_skb *skb, const struct or_packet *packet, or_u32 table)
{
	const struct or_address *to = &packet->flow.destination;
	or_u64 kind = packet->flow.protocol << 8 | (address_is_v4(to) ? 4 : 6);
	or_u64 facts = packet->flow.sport | (or_u64)packet->flow.dport << 16 | kind << 32 | (or_u64)packet->class << 48;

	return scope_match(skb_argument(skb), to->word[0] | (or_u64)to->word[1] << 32,
			   to->word[2] | (or_u64)to->word[3] << 32, facts, table);
}

/* What the rules say of a packet that may be held, if there are any. */
OR_INLINE struct scope scope_of(struct or_skb *skb, const struct or_packet *packet, const struct or_config *config)
{
	struct scope scope = { .tables = config->scopes, .rule = SCOPE_HOLDS };

	if (scope.tables & 0xff)
		scope.rule = scope_ask(skb, packet, scope.tables & 0xff);
	if (scope.tables >> 8)
		scope.dry_run = scope_ask(skb, packet, scope.tables >> 8);
	return scope;
}

OR_INLINE void scope_add(or_u32 table, or_u32 rule, or_u32 bytes, or_u32 paused, or_u64 time)
{
	or_u32 at = (table - 1) * (OR_RULES + 1) + (rule & SCOPE_RULE);
	struct or_scoped *counts = table ? bpf_map_lookup_elem(&scoped, &at) : 0;

	if (!counts)
		return;
	counts->packets++;
	counts->bytes += bytes;
	if (paused) {
		counts->paused++;
		counts->paused_bytes += bytes;
	}
	counts->paused_time += time;
}

/* A packet leaves, which was @paused, or would have been; before it ended a pause of so much @time. */
OR_INLINE void scope_count(const struct scope *scope, or_u32 bytes, or_u32 paused, or_u64 time)
{
	if (!scope->tables)
		return;
	scope_add(scope->tables & 0xff, scope->rule, bytes, paused, time);
	scope_add(scope->tables >> 8, scope->dry_run, bytes, paused, time);
}

#endif
