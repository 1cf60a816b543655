/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The timing wheel: a flow that waits until a time is in the list of that time's slot. Short slots have 2 us, 2 ms
 * together; long ones 2 ms, 2 s together. When the time of a long slot comes, its flows go to short ones. A flow that
 * waits for longer than all slots is in the last, and goes on from there. Where a time is inside a short slot, its flow
 * is in the next one, so that a slot is emptied as a whole, once it begins: nothing is looked at before its time.
 */
#ifndef QDISC_WHEEL_H
#define QDISC_WHEEL_H

#define WHEEL_SHORT 0
#define WHEEL_LONG 1

/* The number of the lowest bit that is 1; there is one. BPF has no instruction for it. */
OR_INLINE or_u32 lowest_bit(or_u64 bits)
{
	or_u32 at = 0, i;

	for (i = 32; i; i /= 2) {
		if (!(bits & ((1ULL << i) - 1))) {
			bits >>= i;
			at += i;
		}
	}
	return at;
}

/* When a slot begins. */
OR_INLINE or_u64 wheel_begins(or_u32 level, or_u64 slot)
{
	return slot << (level == WHEEL_LONG ? WHEEL_SHIFT + WHEEL_LOG : WHEEL_SHIFT);
}

/* The first slot of a level that has flows, as its time in units of slots; 0 if none has. */
SUBPROGRAM or_u64 wheel_first(or_u32 number, or_u32 level)
{
	struct instance *of = instance_at(number);
	or_u32 at, word, words, skipped;
	struct level *l;
	or_u64 bits;

	if (!of)
		return 0;
	l = &of->levels[level & 1];
	at = l->from & (WHEEL_SLOTS - 1);
	word = at / 64;
	bits = l->filled[word] >> (at & 63);
	if (bits)
		return l->from + lowest_bit(bits);
	/* From the next word on, all round: at last those slots of this word that are next time's. */
	words = (l->words | l->words << 16) >> (word + 1) & 0xffff;
	if (!words)
		return 0;
	skipped = lowest_bit(words);
	bits = l->filled[(word + 1 + skipped) & (WHEEL_SLOTS / 64 - 1)];
	return bits ? (l->from | 63) + 1 + 64 * skipped + lowest_bit(bits) : 0;
}

/* All slots before @now are empty. */
OR_INLINE void wheel_is_at(struct instance *of, or_u64 now)
{
	of->levels[WHEEL_SHORT].from = now >> WHEEL_SHIFT;
	of->levels[WHEEL_LONG].from = now >> (WHEEL_SHIFT + WHEEL_LOG);
}

/* A flow waits until then, which is after @now; it has a turn. */
SUBPROGRAM int wheel_add(or_u32 number, or_u32 index, or_u64 until, or_u64 now)
{
	or_u64 slot = (until + (1 << WHEEL_SHIFT) - 1) >> WHEEL_SHIFT, last, begins;
	struct instance *of = instance_at(number);
	struct queue *f = queue_at(number, index);
	or_u32 level = WHEEL_SHORT, at;
	struct level *l;

	if (!of || !f)
		return 0;
	/* While nobody waits, the wheel stands still. */
	if (!of->gate.stats.throttled_flows++) {
		wheel_is_at(of, now);
		of->earliest = ~0ULL;
	}
	l = &of->levels[WHEEL_SHORT];
	if (slot - l->from >= WHEEL_SLOTS) {
		level = WHEEL_LONG;
		l = &of->levels[WHEEL_LONG];
		slot >>= WHEEL_LOG;
		last = l->from + WHEEL_SLOTS - 1;
		if (slot > last)
			slot = last;
	}
	at = slot & (WHEEL_SLOTS - 1);
	f->until = until;
	f->gate.ready_since = until;
	list_move(of, number, index, f, PLACE_WHEEL + level * WHEEL_SLOTS + at);
	l->filled[at / 64] |= 1ULL << (at & 63);
	l->words |= 1U << at / 64;
	begins = wheel_begins(level, slot);
	if (begins < of->earliest)
		of->earliest = begins;
	return 0;
}

/* A flow that waits gets a turn again. */
SUBPROGRAM int wheel_remove(or_u32 number, or_u32 index)
{
	struct instance *of = instance_at(number);
	struct queue *f = queue_at(number, index);
	or_u32 at = f ? f->place - PLACE_WHEEL : PLACES, word;
	struct level *l;
	struct ends *slot;

	if (!of || !f || at >= WHEEL_LEVELS * WHEEL_SLOTS)
		return 0;
	slot = ends_of(of, PLACE_WHEEL + at);
	list_move(of, number, index, f, PLACE_OLD);
	of->gate.stats.throttled_flows--;
	if (!slot || slot->first)
		return 0;
	l = &of->levels[at / WHEEL_SLOTS & 1];
	word = at % WHEEL_SLOTS / 64;
	l->filled[word] &= ~(1ULL << (at & 63));
	if (!l->filled[word])
		l->words &= ~(1U << word);
	return 0;
}

/* Flows whose wait is over get a turn again. */
SUBPROGRAM int wheel_turn(or_u32 number, or_u64 now)
{
	struct instance *of = instance_at(number);
	or_u64 today = now >> WHEEL_SHIFT;
	or_u32 i;

	if (!of)
		return 0;
	if (now < of->earliest) {
		wheel_is_at(of, now);
		return 0;
	}
	or_for(i, GATE_WAKES) {
		or_u64 slot = wheel_first(number, WHEEL_SHORT), later;
		or_u32 level = WHEEL_SHORT, index;
		struct ends *ends;
		struct queue *f;

		if (!slot || slot > today) {
			later = wheel_first(number, WHEEL_LONG);
			if (!later || later > today >> WHEEL_LOG) {
				wheel_is_at(of, now);
				of->earliest = slot ? wheel_begins(WHEEL_SHORT, slot) : ~0ULL;
				if (later && wheel_begins(WHEEL_LONG, later) < of->earliest)
					of->earliest = wheel_begins(WHEEL_LONG, later);
				return 0;
			}
			/* Short slots take its flows, which are those of the next 2 ms. */
			of->levels[WHEEL_SHORT].from = today;
			of->levels[WHEEL_LONG].from = later;
			level = WHEEL_LONG;
			slot = later;
		}
		ends = ends_of(of, PLACE_WHEEL + level * WHEEL_SLOTS + (slot & (WHEEL_SLOTS - 1)));
		index = ends ? ends->first : 0;
		f = index ? queue_at(number, index) : 0;
		if (!f)
			break;
		wheel_remove(number, index);
		if (f->until > now)
			wheel_add(number, index, f->until, now);
	}
	/* So many at once: the others in the next dequeue, at once. */
	of->earliest = now;
	return 0;
}

#endif
