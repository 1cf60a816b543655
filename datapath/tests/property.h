/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A property test of the gate, in an ordinary process: packets of flows come, wait and leave at random, by a clock that only
 * this test moves. gate_program.c and gate_module.c bring the gate itself, as it is built for the kernel.
 *
 * What must hold, whatever happens:
 * - No packet of a flow overtakes another of it; pure ACKs may overtake data, but not each other.
 * - Each packet that was taken leaves once, and the gate's counts are those of the packets in it.
 * - No packet leaves before its departure time, or against the answer of the program.
 * - After a dequeue that found nothing no packet is left whose wait is over, and there is a timer for the first that will be.
 * - Who shared a flow gets one of its own when there is room again.
 * - A socket that is not TCP's and asked for a rate has it; TCP's that was held has it unless it keeps little.
 * - CoDel drops where the device is slow, never a flow's last packet, nor a pure ACK, nor for what the program held.
 * - What a packet takes does not depend on how many flows wait.
 * - All gates together have no more memory than the limit, and leave what they do not need to the others.
 *
 *   gate_… SEED RUNS
 */
#ifndef TESTS_PROPERTY_H
#define TESTS_PROPERTY_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How late a packet may be. */
#define GRAIN 2048
#define KEYS 128
#define NEVER (~0ULL)
#define MAX_HOLD 10000000ULL

struct packet {
	struct sk_buff skb;
	struct packet *next; /* in its line */
	unsigned long long departs; /* asked for by the sender, or 0 */
	unsigned long long waits; /* by the program's last answer, or 0 */
	unsigned long long held_since, came;
	unsigned int key, hash, number, bytes, ack, line;
};

/* Who stands behind whom: the flows, and the one that is shared. */
#define SHARED KEYS
struct line {
	struct packet *first, *last;
};

struct limits {
	unsigned int packets, bytes, flow_packets, flows, quantum;
	unsigned long long target;
};

/* What gate_program.c and gate_module.c have. */
static void gate_open(const struct limits *limits);
static void gate_limit(const struct limits *limits);
static void gate_close(void);
static void gate_reset(void);
static int gate_enqueue(struct packet *packet);
static struct packet *gate_dequeue(void);
static unsigned int gate_length(void);
static unsigned int gate_backlog(void);
static const struct tc_onramp_xstats *gate_stats(void);
static unsigned int gate_bucket(unsigned int hash);
static void gate_choose(unsigned int gate);
static unsigned long long gate_taken(void);
static struct sock tcp_socket(unsigned long long rate, unsigned int bytes);
/* Of gate_choose(). */
#define GATES 4

/* The clock, and when the gate wants to be asked again. */
static unsigned long long now, timer;
/* Accesses of the gate to what it keeps. */
static unsigned long long work;
static unsigned int hashes[KEYS];
static struct line lines[KEYS + 1];
static unsigned int sent[KEYS], left[KEYS][2];
static unsigned int inside, inside_bytes;
static unsigned long long seed, random_state;
static unsigned int hold_percent;
/* CoDel's in this run, and how many it dropped. */
static unsigned long long target, dropped;

static void fail(const char *text, ...)
{
	va_list arguments;

	va_start(arguments, text);
	printf("seed %llu at %llu ns: ", seed, now);
	vprintf(text, arguments);
	puts("");
	exit(1);
}

/* splitmix64 */
static unsigned long long draw(unsigned long long below)
{
	unsigned long long z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (z ^ z >> 31) % below;
}

/* As often short as long: from 1 to 2^@most. */
static unsigned long long draw_long(unsigned int most)
{
	unsigned int bits = 1 + draw(most);

	return 1 + draw(1ULL << bits);
}

/* The program's answer. */
static unsigned int ask(struct packet *packet)
{
	unsigned long long wait = draw(100) < hold_percent ? draw_long(22) : 0;

	if (packet->ack)
		fail("a pure ACK was asked for");
	if (packet->waits > now && packet->held_since + MAX_HOLD > now)
		fail("a packet was asked for %llu ns before its wait is over", packet->waits - now);
	packet->waits = wait ? now + wait : 0;
	if (wait && !packet->held_since)
		packet->held_since = now;
	return wait;
}

static void take_out(struct packet *packet)
{
	struct line *line = &lines[packet->line];
	struct packet **link = &line->first, *before = NULL;

	while (*link && *link != packet) {
		before = *link;
		link = &before->next;
	}
	if (!*link)
		fail("a packet left twice");
	*link = packet->next;
	if (line->last == packet)
		line->last = before;
	inside--;
	inside_bytes -= packet->bytes;
}

static void enqueue(unsigned int key, unsigned int bytes, unsigned int ack, unsigned long long departs)
{
	struct packet *packet = calloc(1, sizeof(*packet));
	unsigned long long shared = gate_stats()->no_flow;
	struct packet *other;
	struct line *line;

	packet->key = key;
	packet->hash = hashes[key];
	packet->bytes = bytes;
	packet->ack = ack;
	packet->departs = departs;
	packet->number = ++sent[key];
	if (!gate_enqueue(packet)) {
		free(packet);
		return;
	}
	packet->line = gate_stats()->no_flow > shared ? SHARED : key;
	line = &lines[packet->line];
	if (line->last)
		line->last->next = packet;
	else
		line->first = packet;
	line->last = packet;
	/* Its flow gets a turn, and is then asked for again. */
	for (other = line->first; ack && other; other = other->next)
		other->waits = 0;
	inside++;
	inside_bytes += bytes;
}

/* CoDel drops a packet. */
static void drop(struct packet *packet)
{
	dropped++;
	if (!target)
		fail("a packet is dropped without a target");
	if (packet->ack)
		fail("a pure ACK is dropped");
	if (packet->departs > now)
		fail("a packet is dropped before its time");
	take_out(packet);
	if (!lines[packet->line].first)
		fail("a flow's last packet is dropped");
	free(packet);
}

/* Whether the gate gave a packet. */
static int dequeue(void)
{
	struct packet *packet = gate_dequeue();
	unsigned long long out;

	if (gate_length() != inside - !!packet || gate_backlog() != inside_bytes - (packet ? packet->bytes : 0))
		fail("%u packets, %u bytes are there, the gate has %u, %u", inside, inside_bytes, gate_length(),
		     gate_backlog());
	if (!packet)
		return 0;
	take_out(packet);
	if (packet->number <= left[packet->key][packet->ack])
		fail("packet %u of flow %u left after %u", packet->number, packet->key, left[packet->key][packet->ack]);
	left[packet->key][packet->ack] = packet->number;
	out = packet->held_since ? packet->held_since + MAX_HOLD : NEVER;
	if (!packet->ack && packet->departs > now)
		fail("a packet left %llu ns before its time", packet->departs - now);
	/* A program that has held for so long is not obeyed for as long again. */
	if (!packet->ack && packet->waits > now && out > now && !gate_stats()->max_hold)
		fail("a packet left that was to wait for %llu ns", packet->waits - now);
	free(packet);
	return 1;
}

/* Takes all that may leave, and looks at what may not. */
static void drain(void)
{
	unsigned int rounds = 0, i;
	unsigned long long first = NEVER;

	do {
		timer = NEVER;
		while (dequeue())
			rounds = 0;
		if (++rounds > 100000)
			fail("the gate goes round in circles");
	} while (timer <= now);
	for (i = 0; i <= KEYS; i++) {
		struct packet *packet;
		unsigned long long due;

		for (packet = lines[i].first; packet && packet->ack; packet = packet->next)
			fail("a pure ACK waits");
		if (!packet)
			continue;
		due = packet->waits;
		if (packet->held_since && due > packet->held_since + MAX_HOLD)
			due = packet->held_since + MAX_HOLD;
		if (due < packet->departs)
			due = packet->departs;
		if (due + GRAIN <= now)
			fail("a packet of line %u waits for %llu ns too long", i, now - due);
		if (due < first)
			first = due;
	}
	if (inside && timer > first + GRAIN)
		fail("the timer is %llu ns after the first packet's time", timer - first);
}

/* So many keys in so few buckets that they share them. */
static void choose_keys(unsigned int buckets)
{
	unsigned int hash = draw(1 << 20), i = 0;

	while (i < KEYS)
		if (gate_bucket(++hash) < buckets)
			hashes[i++] = hash;
}

static void everything_leaves(void)
{
	hold_percent = 0;
	while (inside) {
		drain();
		if (inside)
			now = timer;
	}
	if (gate_stats()->throttled_flows)
		fail("%u flows wait without a packet", gate_stats()->throttled_flows);
}

/* Nothing is left of former packets that would have new ones share a flow. */
static void all_have_a_place(void)
{
	struct limits limits = { 1000, 1 << 30, 1000, 1000, 3000 };
	unsigned long long shared = gate_stats()->no_flow;

	gate_limit(&limits);
	now += 4000000000ULL;
	for (unsigned int key = 0; key < 30; key++)
		enqueue(key, 100, 0, 0);
	if (gate_stats()->no_flow > shared)
		fail("%llu packets share a flow", gate_stats()->no_flow - shared);
	everything_leaves();
}

static void limits_at_random(struct limits *limits)
{
	*limits = (struct limits){
		.packets = draw(2) ? 10000 : 1 + draw(200),
		.bytes = draw(2) ? 1 << 30 : 1 + draw(200000),
		.flow_packets = draw(2) ? 1000 : 1 + draw(20),
		.flows = draw(2) ? 1000 : 1 + draw(20),
		.quantum = 1 << (8 + draw(8)),
		.target = target,
	};
}

/* Now and then of many packets at once. */
static unsigned long long departure(void)
{
	unsigned long long at = now + draw_long(draw(20) ? 24 : 33);

	return draw(4) ? at : at + 999999 - (at + 999999) % 1000000;
}

static void random_run(unsigned int steps)
{
	unsigned int keys = 1 + draw(KEYS), ready = draw(2), hold = draw(90), dated = draw(2) ? draw(50) : 0;
	struct limits limits;

	memset(lines, 0, sizeof(lines));
	memset(sent, 0, sizeof(sent));
	memset(left, 0, sizeof(left));
	now += 1 + draw(1ULL << 40);
	timer = NEVER;
	hold_percent = hold;
	choose_keys(1 << draw(5));
	target = draw(2) ? draw_long(24) : 0;
	limits_at_random(&limits);
	gate_open(&limits);
	while (steps--) {
		unsigned int some = 1 + draw(8), ack = draw(10) == 0, key;

		switch (draw(20)) {
		case 0:
			limits_at_random(&limits);
			gate_limit(&limits);
			break;
		case 1 ... 4:
			/* Until the timer, or a while. */
			now = timer != NEVER && timer > now && draw(2) ? timer : now + draw_long(draw(50) ? 22 : 33);
			break;
		case 5:
			if (draw(40))
				break;
			gate_reset();
			memset(lines, 0, sizeof(lines));
			inside = inside_bytes = 0;
			timer = NEVER;
			break;
		case 6 ... 9:
			while (!ready && some-- && dequeue())
				;
			break;
		default:
			for (key = draw(keys); some--; key = draw(4) ? key : draw(keys))
				enqueue(key, 40 + draw(1500), ack, draw(100) < dated ? departure() : 0);
		}
		if (ready || !draw(50))
			drain();
	}
	everything_leaves();
	all_have_a_place();
	gate_close();
}

static struct packet *crowd_packet(unsigned int hash, unsigned long long departs)
{
	struct packet *packet = calloc(1, sizeof(*packet));

	packet->hash = hash;
	packet->bytes = 1000;
	packet->departs = departs;
	if (!gate_enqueue(packet))
		fail("a packet was dropped");
	return packet;
}

/*
 * So many flows wait, until times of the same 100 us; meanwhile packets of another one pass. Returns what the gate does for one
 * of these, and in @waiting what it does for a packet that waits, until it has left.
 */
static double crowd(unsigned int flows, double *waiting)
{
	struct limits limits = { 20000, 1 << 30, 1000, 15000, 3000 };
	unsigned int passing = 1000, i;
	unsigned long long before, at = (now += 1ULL << 32) + 200000000;
	struct packet *packet;
	double done;

	hold_percent = 0;
	gate_open(&limits);
	before = work;
	for (i = 0; i < flows; i++) {
		crowd_packet(1 + i, at + draw(100000));
		now += 1000;
		if (gate_dequeue())
			fail("a packet left before its time");
	}
	*waiting = work - before;
	now = at - 1000;
	/* What has come nearer is put where it belongs. */
	for (i = 0, timer = now; timer <= now && i < flows; i++)
		gate_dequeue();
	before = work;
	for (i = 0; i < passing; i++) {
		packet = crowd_packet(0, 0);
		if (gate_dequeue() != packet || gate_dequeue())
			fail("another packet left");
		free(packet);
		if (timer <= now)
			fail("the gate is busy while all wait");
		now++;
	}
	done = (double)(work - before) / passing;
	before = work;
	for (i = 0; i < flows;) {
		packet = gate_dequeue();
		if (!packet)
			now = timer > now ? timer : now + 1;
		i += !!packet;
		if (packet && (packet->departs > now || packet->departs + GRAIN <= now))
			fail("a packet left at %llu that was to leave at %llu", now, packet->departs);
		free(packet);
	}
	*waiting = (*waiting + work - before) / flows;
	gate_close();
	return done;
}

static void crowds(void)
{
	double few[2], many[2];

	few[0] = crowd(10, &few[1]);
	many[0] = crowd(10000, &many[1]);
	/* Where a tree is a stand-in, its accesses say nothing. */
	if (!work)
		return;
	printf("accesses a packet beside 10 and 10000 flows that wait: %.1f and %.1f; of one that waits: %.1f and %.1f\n", few[0],
	       many[0], few[1], many[1]);
	if (many[0] > 1.3 * few[0] || many[1] > 1.3 * few[1])
		fail("many flows that wait cost more than few");
}

/*
 * A sender whose window grows by a packet a round trip, and is halved when one is dropped; all of it stands before a device that
 * takes a packet in 100 us. Returns for how long packets stood on average, in the second half.
 */
static double standing(unsigned long long codel)
{
	struct limits limits = { 10000, 1 << 30, 10000, 1000, 3000, target = codel };
	unsigned int flying = 0, steps = 100000, i;
	unsigned long long before = dropped, sum = 0;
	struct packet *packet;
	double window = 2;

	now += 1ULL << 32;
	hold_percent = 0;
	memset(lines, 0, sizeof(lines));
	memset(sent, 0, sizeof(sent));
	memset(left, 0, sizeof(left));
	hashes[0] = 1;
	gate_open(&limits);
	for (i = 0; i < steps; i++) {
		while (flying < window) {
			enqueue(0, 1000, 0, 0);
			lines[0].last->came = now;
			flying++;
		}
		now += 100000;
		packet = lines[0].first;
		sum += i < steps / 2 ? 0 : now - packet->came;
		if (!dequeue())
			fail("nothing leaves");
		flying -= 1 + dropped - before;
		window = dropped > before && window > 4 ? window / 2 : window + 1 / window;
		before = dropped;
	}
	everything_leaves();
	gate_close();
	return sum / (steps / 2.0);
}

static void codel(void)
{
	struct limits limits = { 10000, 1 << 30, 10000, 1000, 3000, 5000000 };
	unsigned long long before;
	double without = standing(0), with;

	before = dropped;
	with = standing(5000000);
	printf("before a slow device packets stand for %.1f ms, with CoDel %.1f ms, which drops %llu of 100000\n", without / 1e6,
	       with / 1e6, dropped - before);
	if (without < 20e6 || with > 10e6 || with < 2e6)
		fail("CoDel does not keep its target");
	/* The program holds for half of the time: many packets are there for longer than that, and none is dropped. */
	target = 5000000;
	before = dropped;
	gate_open(&limits);
	hold_percent = 95;
	memset(sent, 0, sizeof(sent));
	memset(left, 0, sizeof(left));
	for (unsigned int i = 0; i < 50000;) {
		while (inside < 5000)
			enqueue(0, 1000, 0, 0);
		if (dequeue()) {
			i++;
			now += 10000;
		} else if (timer > now) {
			now = timer;
		}
	}
	everything_leaves();
	if (dropped > before)
		fail("what the program held is dropped");
	gate_close();
	target = 0;
}

/* Packets of a socket that have all come together, and of which the program has held the first, take so long to leave. */
static void take(struct sock *socket, int held, unsigned long long all)
{
	struct limits limits = { 1000, 1 << 30, 1000, 1000, 3000 };
	unsigned long long start = now += 1ULL << 32;
	struct packet *packet;

	hold_percent = held ? 100 : 0;
	gate_open(&limits);
	for (unsigned int i = 0; i < 101; i++) {
		packet = calloc(1, sizeof(*packet));
		packet->skb.sk = socket;
		packet->hash = 7;
		packet->bytes = 1000;
		if (!gate_enqueue(packet))
			fail("a packet was dropped");
	}
	for (unsigned int i = 0; i < 101;) {
		packet = gate_dequeue();
		if (!packet && timer <= now)
			fail("a socket with a rate keeps the gate busy");
		hold_percent = 0;
		now = packet ? now : timer;
		start = i ? start : now;
		i += !!packet;
		free(packet);
	}
	if (now - start + GRAIN < all || now - start > all + GRAIN * 2)
		fail("at %llu bytes a second 100 packets left in %llu ns, not %llu", (unsigned long long)socket->sk_pacing_rate,
		     now - start, all);
	gate_close();
}

static void paced(void)
{
	struct sock udp = { .sk_pacing_rate = 100000000 }, slow_udp = { .sk_pacing_rate = 12000 };
	struct sock much = tcp_socket(100000000, GATE_SHORT_BYTES + 1);
	struct sock little = tcp_socket(100000000, GATE_SHORT_BYTES);

	take(&udp, 0, 1000000);
	take(&slow_udp, 0, 8333333333);
	take(&much, 0, 0);
	take(&much, 1, 1000000);
	take(&little, 1, 0);
}

/* Fills the chosen gate with packets of @bytes, which are freed with it: how many it took. */
static unsigned int fill(unsigned int bytes)
{
	unsigned int taken = 0;

	for (;; taken++) {
		struct packet *packet = calloc(1, sizeof(*packet));

		packet->hash = 1 + taken;
		packet->bytes = bytes;
		if (!gate_enqueue(packet)) {
			free(packet);
			return taken;
		}
	}
}

static void memory_is_shared(unsigned int bytes, unsigned int limit)
{
	struct limits limits = { 10000, limit, 10000, 10000, 3000 };
	unsigned int most = limit / (bytes + GATE_PACKET_BYTES), i, all = 0;
	unsigned long long drops;

	now += 1ULL << 32;
	hold_percent = 0;
	for (i = 0; i < GATES; i++) {
		gate_choose(i);
		gate_open(&limits);
	}
	/* One may have it all, whoever it is. */
	for (i = 0; i < GATES; i++) {
		gate_choose(i);
		drops = gate_stats()->bytes_drops;
		all = fill(bytes);
		if (all != most || gate_stats()->bytes_drops != drops + 1)
			fail("%u packets of %u bytes fit in %u, not %u", all, bytes, limit, most);
		gate_choose((i + 1) % GATES);
		if (limit > 2 * GATE_PIECE && fill(bytes))
			fail("more fits in %u bytes than there is", limit);
		gate_choose(i);
		while (all--)
			free(gate_dequeue());
		if (gate_taken() > 2 * GATE_PIECE)
			fail("an empty gate keeps %llu bytes", gate_taken());
		gate_reset();
		if (gate_taken())
			fail("%llu bytes are lost", gate_taken());
	}
	/* All of them, in turns and at random. */
	for (i = 0; i < 100000; i++) {
		struct packet *packet = calloc(1, sizeof(*packet));

		gate_choose(draw(GATES));
		packet->hash = 1 + draw(100);
		packet->bytes = bytes;
		if (!gate_enqueue(packet))
			free(packet);
		if (draw(3) == 0)
			free(gate_dequeue());
		if (gate_taken() > limit)
			fail("gates have %llu bytes, of %u", gate_taken(), limit);
	}
	for (i = all = 0; i < GATES; i++) {
		gate_choose(i);
		all += gate_length();
	}
	if (all > most || all + 2 * GATES * GATE_PIECE / (bytes + GATE_PACKET_BYTES) < most)
		fail("%u packets of %u bytes fit in %u, not %u", all, bytes, limit, most);
	for (i = 0; i < GATES; i++) {
		gate_choose(i);
		gate_close();
	}
	if (gate_taken())
		fail("%llu bytes are lost", gate_taken());
	gate_choose(0);
}

int main(int count, char **words)
{
	unsigned int runs = count > 2 ? atoi(words[2]) : 1;

	for (seed = count > 1 ? atoll(words[1]) : 1; runs--; seed++) {
		random_state = seed;
		random_run(3000);
	}
	memory_is_shared(1000, 1 << 20);
	memory_is_shared(65000, 8 << 20);
	memory_is_shared(40, 100000);
	paced();
	codel();
	crowds();
	puts("all held");
	return 0;
}

#endif
