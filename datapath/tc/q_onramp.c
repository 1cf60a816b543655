// SPDX-License-Identifier: GPL-2.0-only
/*
 * Teaches tc(8) the qdisc "onramp". tc loads q_onramp.so from its library folder
 * (or TC_LIB_DIR) when it meets the name.
 *
 * tc's own headers are not packaged; what a plugin needs of them is declared here, as it
 * has been since iproute2 5.0.
 */
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "../sch_onramp/pkt_sched_onramp.h"

struct qdisc_util {
	struct qdisc_util *next;
	const char *id;
	int (*parse_qopt)(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n, const char *dev);
	int (*print_qopt)(struct qdisc_util *qu, FILE *f, struct rtattr *opt);
	int (*print_xstats)(struct qdisc_util *qu, FILE *f, struct rtattr *xstats);
	int (*parse_copt)(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n, const char *dev);
	int (*print_copt)(struct qdisc_util *qu, FILE *f, struct rtattr *opt);
	int (*has_block)(struct qdisc_util *qu, struct rtattr *opt, struct rtattr *n, bool *has_block);
};

enum output_type { PRINT_ANY = 4 };
enum color_attr { COLOR_NONE = 6 };
int print_color_u64(enum output_type t, enum color_attr color, const char *key, const char *format, uint64_t value);
int print_color_string(enum output_type t, enum color_attr color, const char *key, const char *format, const char *value);
void print_nl(void);
char *sprint_time64(int64_t time, char *buffer);
bool is_json_context(void);
int get_u32(uint32_t *value, const char *text, int base);
int get_size(unsigned int *size, const char *text);
int get_time64(int64_t *time, const char *text);
int addattr_l(struct nlmsghdr *n, int max, int type, const void *data, int length);
struct rtattr *addattr_nest(struct nlmsghdr *n, int max, int type);
int addattr_nest_end(struct nlmsghdr *n, struct rtattr *nest);
int parse_rtattr_flags(struct rtattr *tb[], int max, struct rtattr *rta, int length, unsigned short flags);

#define MESSAGE_ROOM 1024
#define ANY PRINT_ANY, COLOR_NONE

static void explain(void)
{
	fprintf(stderr, "Usage: ... onramp [ limit PACKETS ] [ bytes SIZE ] [ flow_limit PACKETS ]\n"
			"                  [ flows NUMBER ] [ quantum SIZE ] [ max_hold TIME ] [ pacing 0|1 ] [ target TIME ]\n"
			"The program that holds flows is attached by onrampd.\n");
}

/* An option and how its value is read. */
static const struct option {
	const char *name;
	int attribute;
	enum { NUMBER, SIZE, TIME } kind;
} options[] = {
	{ "limit", TCA_ONRAMP_LIMIT, NUMBER },	     { "bytes", TCA_ONRAMP_BYTES, SIZE },
	{ "flow_limit", TCA_ONRAMP_FLOW_LIMIT, NUMBER }, { "flows", TCA_ONRAMP_FLOWS, NUMBER },
	{ "quantum", TCA_ONRAMP_QUANTUM, SIZE },     { "max_hold", TCA_ONRAMP_MAX_HOLD64, TIME },
	{ "pacing", TCA_ONRAMP_PACING, NUMBER },	     { "target", TCA_ONRAMP_TARGET64, TIME },
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

static int onramp_parse(struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n, const char *dev)
{
	struct rtattr *nest = addattr_nest(n, MESSAGE_ROOM, TCA_OPTIONS | NLA_F_NESTED);

	(void)qu, (void)dev;
	for (; argc > 0; argc -= 2, argv += 2) {
		const struct option *o = options;
		uint32_t number = 0;
		int64_t time = 0;
		int wrong;

		while (o < options + OPTIONS && strcmp(o->name, argv[0]))
			o++;
		if (o == options + OPTIONS || argc < 2) {
			if (strcmp(argv[0], "help"))
				fprintf(stderr, o == options + OPTIONS ? "onramp: what is \"%s\"?\n" : "onramp: \"%s\" needs a value\n", argv[0]);
			explain();
			return -1;
		}
		wrong = o->kind == TIME ? get_time64(&time, argv[1]) :
			o->kind == SIZE ? get_size(&number, argv[1]) : get_u32(&number, argv[1], 0);
		if (wrong || time < 0) {
			fprintf(stderr, "onramp: %s \"%s\" is not a %s\n", o->name, argv[1],
				o->kind == TIME ? "time, such as 10ms" : o->kind == SIZE ? "size, such as 64mb" : "number");
			return -1;
		}
		if (o->kind == TIME)
			addattr_l(n, MESSAGE_ROOM, o->attribute, &time, sizeof(time));
		else
			addattr_l(n, MESSAGE_ROOM, o->attribute, &number, sizeof(number));
	}
	addattr_nest_end(n, nest);
	return 0;
}

static void print_time(const char *key, const char *label, uint64_t ns)
{
	char buffer[64];

	if (is_json_context()) {
		print_color_u64(ANY, key, "", ns);
	} else {
		print_color_string(ANY, NULL, label, "");
		print_color_string(ANY, NULL, "%s ", sprint_time64(ns, buffer));
	}
}

static int onramp_print(struct qdisc_util *qu, FILE *f, struct rtattr *opt)
{
	struct rtattr *tb[TCA_ONRAMP_MAX + 1];
	size_t i;

	(void)qu, (void)f;
	if (!opt)
		return 0;
	parse_rtattr_flags(tb, TCA_ONRAMP_MAX, RTA_DATA(opt), RTA_PAYLOAD(opt), NLA_F_NESTED);
	for (i = 0; i < OPTIONS; i++) {
		const struct option *o = options + i;
		struct rtattr *a = tb[o->attribute];
		char format[32];
		uint64_t time;

		if (o->kind == TIME && a && RTA_PAYLOAD(a) >= sizeof(time)) {
			memcpy(&time, RTA_DATA(a), sizeof(time));
			snprintf(format, sizeof(format), "%s ", o->name);
			print_time(o->name, format, time);
		} else if (o->kind != TIME && a && RTA_PAYLOAD(a) >= sizeof(uint32_t)) {
			snprintf(format, sizeof(format), "%s %%llu%s ", o->name, o->kind == SIZE ? "b" : "");
			print_color_u64(ANY, o->name, format, *(uint32_t *)RTA_DATA(a));
		}
	}
	if (tb[TCA_ONRAMP_PROG_NAME])
		print_color_string(ANY, "program", "program %s ", RTA_DATA(tb[TCA_ONRAMP_PROG_NAME]));
	if (tb[TCA_ONRAMP_PROG_ID] && RTA_PAYLOAD(tb[TCA_ONRAMP_PROG_ID]) >= sizeof(uint32_t))
		print_color_u64(ANY, "program_id", "id %llu ", *(uint32_t *)RTA_DATA(tb[TCA_ONRAMP_PROG_ID]));
	return 0;
}

static int onramp_print_xstats(struct qdisc_util *qu, FILE *f, struct rtattr *xstats)
{
	struct tc_onramp_xstats s;

	(void)qu, (void)f;
	if (!xstats)
		return 0;
	if (RTA_PAYLOAD(xstats) < sizeof(s))
		return -1;
	memcpy(&s, RTA_DATA(xstats), sizeof(s));
	print_color_u64(ANY, "held", "  held %llu ", s.held);
	print_time("held_ns", "for ", s.held_ns);
	print_color_u64(ANY, "cut", "cut %llu ", s.cut);
	print_color_u64(ANY, "max_hold_reached", "max_hold reached %llu ", s.max_hold);
	print_nl();
	print_color_u64(ANY, "flows", "  flows %llu ", s.flows);
	print_color_u64(ANY, "idle_flows", "(idle %llu ", s.idle_flows);
	print_color_u64(ANY, "throttled_flows", "throttled %llu) ", s.throttled_flows);
	print_color_u64(ANY, "collected", "collected %llu ", s.collected);
	print_nl();
	print_color_u64(ANY, "limit_drops", "  dropped for limit %llu ", s.limit_drops);
	print_color_u64(ANY, "bytes_drops", "bytes %llu ", s.bytes_drops);
	print_color_u64(ANY, "flow_limit_drops", "flow_limit %llu ", s.flow_limit_drops);
	print_nl();
	print_color_u64(ANY, "no_flow", "  without a flow of their own %llu ", s.no_flow);
	print_color_u64(ANY, "acks_first", "ACKs before data %llu ", s.acks_first);
	print_color_u64(ANY, "no_time", "ignored times %llu", s.no_time);
	print_nl();
	print_color_u64(ANY, "codel_drops", "  CoDel dropped %llu ", s.codel_drops);
	print_color_u64(ANY, "codel_marks", "marked %llu", s.codel_marks);
	return 0;
}

struct qdisc_util onramp_qdisc_util = {
	.id = "onramp",
	.parse_qopt = onramp_parse,
	.print_qopt = onramp_print,
	.print_xstats = onramp_print_xstats,
};
