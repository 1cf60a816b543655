/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the eBPF programs and the agent share: the maps' keys and values.
 *
 * The agent fills "config" and "peers"; the programs fill the others. Times are
 * nanoseconds of the host's CLOCK_MONOTONIC unless said otherwise.
 */
#ifndef ONRAMP_ABI_H
#define ONRAMP_ABI_H

#include "onramp.h"
#include "orack.h"
#include "orprobe.h"

/* An address as IPv6; IPv4 as ::ffff:a.b.c.d. In network byte order. */
struct or_address {
	or_u32 word[4];
};

/* A flow, in the direction of its data. Ports in host byte order. */
struct or_tuple {
	struct or_address source;
	struct or_address destination;
	or_u16 sport;
	or_u16 dport;
	or_u8 protocol;
	or_u8 reserved[3];
};

/**
 * struct or_clock - a linear clock: @offset + (t - @base) * @drift at time t
 * @base: where drift counts from
 * @offset: in nanoseconds
 * @drift: seconds per second in units of 2^-32, both signs
 */
struct or_clock {
	or_u64 base;
	or_s64 offset;
	or_s64 drift;
};

#define OR_MODE_OFF 0
/* Delays are measured, pauses computed, nothing is held. */
#define OR_MODE_OBSERVE 1
#define OR_MODE_ENFORCE 2

/* Where delays are above T, segments leave as packets; else whole, as TCP made them. */
#define OR_CUT 1
/* Our clock against the fleet's is known; without it nothing is measured or OR-ACKed. */
#define OR_CLOCK_KNOWN 2
/* Answers to probes leave where nothing can be written into them: their time follows. */
#define OR_FOLLOW_UP 4
/* T is the path's least one-way delay and its uncertainty, if that is above the configured T. */
#define OR_T_FOLLOWS 8

#define OR_INTERVAL_SHIFT_MIN 10
#define OR_INTERVAL_SHIFT_MAX 20
/* 16 KiB: about eleven packets of 1448 bytes. */
#define OR_INTERVAL_SHIFT_DEFAULT 14

/**
 * struct or_config - map "config", an array of two, of which "current" names one
 * @params: of the algorithm
 * @clock: what our clock shows above the fleet's, at a time of our clock
 * @test_clock: added to CLOCK_MONOTONIC wherever time stamps are taken. All 0 but in
 *   tests of clock synchronisation.
 * @idle: a flow that sent nothing for this long starts anew, with what its path knows
 * @segment_rate: nanoseconds a byte of a segment takes to leave, in units of 2^-16:
 *   the bytes of a large segment are taken to leave one after another at line rate.
 *   0: all at once.
 * @mode: OR_MODE_*
 * @scopes: numbers of two tables of map "scopes", from 1 on; 0: there are no rules. In the low byte those in force, above it
 *   those of a dry run, which only count
 * @interval_shift: a packet is OR-ACKed if it has a byte whose sequence number is a
 *   multiple of 2^interval_shift, or if it ends a burst
 * @gap: unless the flow's last OR-ACK is not so old
 * @acker_ifindex: the device on which clones become OR-ACKs
 * @port: UDP port of OR-ACKs and probes
 * @flags: OR_CUT, OR_CLOCK_KNOWN, OR_FOLLOW_UP, OR_T_FOLLOWS
 * @test_noise: standard deviation in nanoseconds of what is added to each time stamp. 0
 *   but in tests.
 */
struct or_config {
	struct onramp_params params;
	struct or_clock clock;
	struct or_clock test_clock;
	or_u64 idle;
	or_u64 gap;
	or_u32 segment_rate;
	or_u16 mode;
	or_u16 scopes;
	or_u32 interval_shift;
	or_u32 acker_ifindex;
	or_u16 port;
	or_u16 flags;
	or_u32 test_noise;
};

/*
 * Map "alive": the programs do nothing after this time, a u64. The agent keeps moving it ahead, so
 * that packets flow freely soon after it died.
 */

/* The peer's clock against ours is known; without it nothing is measured. */
#define OR_PEER_CLOCK_KNOWN 1
/* Delays to it are measured and pauses computed, but nothing is held: see bounds.rs. */
#define OR_PEER_FREE 2
/* While a pair's key changes, tags by the other one count as well. */
#define OR_PEER_TWO_KEYS 4

/**
 * struct or_peer - map "peers", by address: a host with which OR-ACKs are exchanged
 * @key: of the tags of OR-ACKs and probes, in both directions
 * @other_key: see OR_PEER_TWO_KEYS
 * @clock: what the times of the peer's OR-ACKs show above the fleet's, at such a time
 * @uncertainty: of a one-way delay: both clocks and both stamps
 * @renewed: where this is not the path's, the path's least delay is learnt anew
 * @flags: OR_PEER_*
 * @path: its number in map "paths"
 */
struct or_peer {
	or_u64 key[2];
	or_u64 other_key[2];
	struct or_clock clock;
	or_u64 uncertainty;
	or_u64 renewed;
	or_u32 flags;
	or_u32 path;
};

/* Buckets of one-way delays: four an octave from 1 us on; the first one has all below. */
#define OR_OWD_FIRST_SHIFT 10
#define OR_OWD_SUB_SHIFT 2
#define OR_OWD_BUCKETS 64

/* What the agent judges a path by is kept in windows of 1.07 s. */
#define OR_WINDOW_SHIFT 30
/* A path's least delay is its floor once it has been the least for so long. */
#define OR_LEAST_SETTLED 10000000000ULL
/* A delay below the floor is believed after so many in a row: the path has become shorter. */
#define OR_SHORTER 16

/**
 * struct or_window - what a path did in one window
 * @number: its time >> OR_WINDOW_SHIFT
 * @least: least one-way delay, if there are OR-ACKs
 * @held: time in which some flow had to wait
 * @or_acks: OR-ACKs believed
 * @refused: OR-ACKs whose delay cannot be
 */
struct or_window {
	or_u64 number;
	or_s64 least;
	or_u64 held;
	or_u32 or_acks;
	or_u32 refused;
};

/**
 * struct or_path - map "paths", by the number the peer has: what is known of the way to it
 * @owd: latest one-way delay
 * @owd_at: when it was learnt
 * @least: least one-way delay since it was @renewed
 * @least_since: since when it has been that
 * @renewed: see struct or_peer
 * @held_until: latest end of a pause
 * @or_acks: OR-ACKs that came back
 * @owd_sum: sum of their delays
 * @windows: the present one and the one before, by the last bit of their number
 * @histogram: their histogram
 * @shorter: OR-ACKs below the floor, in a row
 * @reserved: 0
 */
struct or_path {
	or_s64 owd;
	or_u64 owd_at;
	or_s64 least;
	or_u64 least_since;
	or_u64 renewed;
	or_u64 held_until;
	or_u64 or_acks;
	or_s64 owd_sum;
	struct or_window windows[2];
	or_u32 histogram[OR_OWD_BUCKETS];
	or_u32 shorter;
	or_u32 reserved;
};

/**
 * struct or_flow - map "flows", by tuple, least recently used ones leave first
 * @state: of the algorithm
 * @last_sent: when a packet left
 * @held_since: the gate has stopped the flow since then; 0: it has not
 * @held: time the gate held the flow
 * @bytes: payload that left
 * @or_acks: OR-ACKs that counted
 * @pauses: how often the gate stopped the flow
 * @free: a rule says that its last packet is not held: then neither @held nor @pauses count
 */
struct or_flow {
	struct onramp_flow state;
	or_u64 last_sent;
	or_u64 held_since;
	or_u64 held;
	or_u64 bytes;
	or_u64 or_acks;
	or_u64 pauses;
	or_u64 free;
};

/* Rules of a table, at most. */
#define OR_RULES 32
/* Places of a table, at most: a rule takes one for each pair of one of its networks and one of its ranges of ports. */
#define OR_PLACES 128
/* Tables: two for the rules in force, of which one is being written, and one for those of a dry run. */
#define OR_SCOPES 3
#define OR_SCOPE_DRY_RUN 3

/**
 * struct or_place - a network and a range of ports of a rule, with its other conditions: a packet of which all hold is the rule's
 * @network: where it goes to, as far as @mask has bits
 * @mask: see there
 * @dscps: bit n: DSCP n
 * @cgroup: id of the sender's cgroup, or of one above it; 0: any, or none
 * @level: depth of that cgroup; the root's is 0
 * @first: one of the packet's two ports is from this one
 * @last: to this one
 * @kind: version of IP, and from bit 8 on the number of what it carries, as far as @kind_mask has bits
 * @kind_mask: see there
 * @rule: its number, from 0 on
 */
struct or_place {
	struct or_address network;
	struct or_address mask;
	or_u64 dscps;
	or_u64 cgroup;
	or_u32 level;
	or_u16 first;
	or_u16 last;
	or_u16 kind;
	or_u16 kind_mask;
	or_u32 rule;
};

/**
 * struct or_scope - map "scopes", an array of OR_SCOPES: rules, of which the first that matches counts
 * @holds: bit n: packets of rule n are held
 * @places: how many there are
 * @key: of each rule: a hash of what it says, by which its counts are found again
 * @place: by their rules
 */
struct or_scope {
	or_u32 holds;
	or_u32 places;
	or_u64 key[OR_RULES];
	struct or_place place[OR_PLACES];
};

/**
 * struct or_scoped - map "scoped", per CPU, OR_RULES + 1 for each table: what a rule, or none of them, matched
 * @packets: data packets to peers that left
 * @bytes: their payload
 * @paused: of them, those that the gate had wait for the end of a pause; where nothing is held, those that it would have had
 * @paused_bytes: their payload
 * @paused_time: how long flows' pauses were; once they are over
 */
struct or_scoped {
	or_u64 packets;
	or_u64 bytes;
	or_u64 paused;
	or_u64 paused_bytes;
	or_u64 paused_time;
};

/*
 * Map "stamps": what was remembered of a packet whose OR-ACK may come back; by
 * flow and sequence number of the byte (TCP) or hash of the packet (UDP) that made
 * it be chosen. Value: struct onramp_stamp; its @paused is OR_SENT_AGAIN if it was sent again.
 */
#define OR_SENT_AGAIN (~0ULL)

struct or_stamp_key {
	struct or_tuple flow;
	or_u32 seq;
};

/**
 * struct or_exchange - ring buffer "exchanges": a step of an exchange of probes. A probe of ours
 *   left; its answer came, or what follows that; or an answer of ours left without its time
 * @peer: the other host
 * @at: when that was, by our uncorrected clock
 * @probe: what left or came, as it was
 * @came: it came
 */
struct or_exchange {
	struct or_address peer;
	or_u64 at;
	struct orprobe probe;
	or_u64 came;
};

/* Map "counters", per CPU: an array of OR_COUNTERS, by these numbers. */
enum or_counter {
	OR_SENT, /* data packets to peers that left */
	OR_SENT_BYTES, /* their payload */
	OR_HELD, /* times a flow was stopped (observe: would have been) */
	OR_STAMPED, /* stamps kept */
	OR_RECEIVED, /* data packets from peers that were chosen */
	OR_ACKS_SENT,
	OR_ACKS_SENT_BYTES, /* their frames, without FCS */
	OR_ACKS_WITH_REPLY, /* of them, those that waited for a packet to be made of */
	OR_ACKS_FAILED, /* clone or rewrite failed */
	OR_ACKS_RECEIVED, /* accepted */
	OR_ACKS_MALFORMED,
	OR_ACKS_UNKNOWN_PEER,
	OR_ACKS_BAD_TAG,
	OR_ACKS_NO_STAMP, /* for a packet never sent, or forgotten, or acknowledged before */
	OR_ACKS_AMBIGUOUS, /* for a packet that was sent again */
	OR_ACKS_NO_CLOCK, /* the peer's clock is not known, or ours */
	OR_ACKS_TOO_LONG, /* their delay is longer than the round trip took */
	OR_ACKS_TOO_SHORT, /* their delay is below 0, or below the path's floor */
	OR_PROBES_SENT,
	OR_PROBES_ANSWERED, /* those of others */
	OR_PROBES_RETURNED, /* answers to ours; not what follows them */
	OR_PROBES_REFUSED, /* malformed, from an unknown host, or with a bad tag */
	OR_UNPARSED, /* neither plain TCP nor plain UDP: fragments, extension headers, … */
	OR_TABLE_FULL, /* a flow or a stamp found no room */
	OR_COUNTERS,
};

#endif
