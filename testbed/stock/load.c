/*
 * Traffic between the guests' hosts; what TCP brings is checked.
 *
 *   load serve PORT
 *   load both HOST PORT SECONDS BYTES     connections, one after another, with so many bytes each way
 *   load incast PORT SEED SECONDS RATE SIZE LOAD BACKGROUND HOST…
 *                                         requests to all hosts at once, which answer with SIZE bytes each; beside
 *                                         them answers of the sizes below from one host each. They arrive at random,
 *                                         and take such parts of RATE, bits a second.
 *
 *   load flood INTERFACE FLOWS PACKETS BYTES SECONDS
 *                                         so many datagrams of each flow to 10.0.0.2, past the stack, which are to leave
 *                                         together after so long
 *
 *   load mark                             says to QEMU where the guest is (marks.c)
 *
 *   load turns INTERFACE PACKETS            takes so many of them, and prints after how many a packet of another
 *                                         flow follows; none may overtake another of its flow
 *
 *   load ticks                            kHz of this processor's time stamp counter
 *
 *   load wire PATH RATE                   takes what comes from a UNIX socket at so many bytes a second, until it ends:
 *                                         a card's slow wire, for QEMU's netdev "stream"
 *
 * The last byte of an answer leaves when all that was to follow its request has come.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <math.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Nobody may be without progress for so long. */
#define PATIENCE 60.0
#define PIECE 65536
/* Its length has no divisor in common with those of packets and pages. */
#define PATTERN 1000003

struct request {
	uint64_t answer; /* bytes that are wanted */
	uint64_t follow; /* bytes that follow it */
};

static unsigned char pattern[PATTERN + PIECE];

static void fail(const char *text, ...)
{
	va_list arguments;

	va_start(arguments, text);
	printf("load: ");
	vprintf(text, arguments);
	puts("");
	exit(1);
}

/* splitmix64 */
static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Above 0, at most 1. */
static double uniform(uint64_t *state)
{
	return ((next(state) >> 11) + 1) * 0x1p-53;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };

	if (!inet_aton(host, &at.sin_addr))
		fail("%s: is no address", host);
	return at;
}

/* The interface may be down or gone at this moment. */
static int connect_to(const char *host, const char *port)
{
	struct sockaddr_in at = address(host, port);
	double end = seconds() + PATIENCE;
	int one = 1;

	do {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (!connect(fd, (struct sockaddr *)&at, sizeof(at))) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			fcntl(fd, F_SETFL, O_NONBLOCK);
			return fd;
		}
		close(fd);
		usleep(100000);
	} while (seconds() < end);
	fail("no connection to %s: %s", host, strerror(errno));
	return -1;
}

/* Sends what comes at @at, of which @left bytes are left. */
static uint64_t put(int fd, uint64_t at, uint64_t left)
{
	ssize_t done = write(fd, pattern + at % PATTERN, left < PIECE ? left : PIECE);

	if (done < 0 && errno != EAGAIN)
		fail("sending byte %llu: %s", (unsigned long long)at, strerror(errno));
	return done < 0 ? 0 : done;
}

/* Takes what has come, and compares it. */
static uint64_t take(int fd, uint64_t at, uint64_t left)
{
	static unsigned char piece[PIECE];
	ssize_t done = read(fd, piece, left < PIECE ? left : PIECE);

	if (done < 0 && errno == EAGAIN)
		return 0;
	if (done <= 0)
		fail("byte %llu: %s", (unsigned long long)at, done ? strerror(errno) : "the other end is gone");
	if (memcmp(piece, pattern + at % PATTERN, done))
		fail("wrong bytes from %llu to %llu", (unsigned long long)at, (unsigned long long)(at + done));
	return done;
}

/* How often a retransmission timer was backed off at most while somebody waited. */
static unsigned int backoffs;

/* Waits for an event of @events, at most until it has taken too long; how long it took. */
static double wait_for(int fd, int events)
{
	struct pollfd one = { .fd = fd, .events = events };
	double began = seconds();

	while (!poll(&one, 1, 1000)) {
		struct tcp_info info = {};
		socklen_t length = sizeof(info);

		getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
		if (info.tcpi_backoff > backoffs)
			backoffs = info.tcpi_backoff;
		if (seconds() - began > PATIENCE)
			fail("nothing moved for %.0f s", PATIENCE);
	}
	return seconds() - began;
}

static void answer(int fd)
{
	uint64_t sent = 0, came = 0;
	struct request asked;

	for (;;) {
		char *to = (char *)&asked;
		uint64_t out, in;

		while (to < (char *)(&asked + 1)) {
			ssize_t done = read(fd, to, (char *)(&asked + 1) - to);

			if (done <= 0)
				return;
			to += done;
		}
		fcntl(fd, F_SETFL, O_NONBLOCK);
		for (out = asked.answer, in = asked.follow; out || in;) {
			uint64_t may = in && out ? out - 1 : out, done;

			wait_for(fd, (may ? POLLOUT : 0) | (in ? POLLIN : 0));
			done = may ? put(fd, sent, may) : 0;
			sent += done;
			out -= done;
			done = in ? take(fd, came, in) : 0;
			came += done;
			in -= done;
		}
		fcntl(fd, F_SETFL, 0);
	}
}

static void serve(const char *port)
{
	struct sockaddr_in at = address("0.0.0.0", port);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	signal(SIGCHLD, SIG_IGN);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 100))
		fail("port %s: %s", port, strerror(errno));
	for (;;) {
		int fd = accept(listener, 0, 0);

		if (fd < 0)
			continue;
		if (!fork()) {
			close(listener);
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			answer(fd);
			exit(0);
		}
		close(fd);
	}
}

/*
 * Whether a connection was accepted and something has come. A kernel that has not seen the last packet of the handshake
 * forgets the connection when its peer is unreachable for a moment, and resets it later.
 */
static int is_accepted(int fd)
{
	char first;

	wait_for(fd, POLLIN);
	if (recv(fd, &first, 1, MSG_PEEK) > 0)
		return 1;
	if (errno != ECONNRESET)
		fail("the first byte: %s", strerror(errno));
	return 0;
}

static void both(const char *host, const char *port, double during, uint64_t bytes)
{
	double end = seconds() + during, longest = 0;
	unsigned int transfers = 0, resets = 0;

	while (seconds() < end) {
		struct request asked = { bytes, bytes };
		int fd = connect_to(host, port);
		uint64_t sent = 0, came = 0;

		if (write(fd, &asked, sizeof(asked)) != sizeof(asked))
			fail("asking: %s", strerror(errno));
		if (!is_accepted(fd)) {
			close(fd);
			resets++;
			continue;
		}
		while (came < bytes) {
			double waited = wait_for(fd, POLLIN | (sent < bytes ? POLLOUT : 0));

			if (waited > longest)
				longest = waited;
			if (sent < bytes)
				sent += put(fd, sent, bytes - sent);
			came += take(fd, came, bytes - came);
		}
		close(fd);
		transfers++;
	}
	printf("%u transfers of %llu bytes each way, nothing moved for %.1f s at most, RTO was backed off %u times, "
	       "%u connections were reset before they were accepted\n",
	       transfers, (unsigned long long)bytes, longest, backoffs, resets);
}

/* A tenth of WebSearch's (DCTCP, SIGCOMM'10): bytes, and how many percent are at most as large. */
static const struct {
	double bytes, percent;
} sizes[] = { { 100, 0 },     { 1000, 15 },   { 2000, 20 },   { 3000, 30 },    { 5000, 40 },	{ 8000, 53 },
	      { 20000, 60 }, { 100000, 70 }, { 200000, 80 }, { 500000, 90 }, { 1000000, 97 }, { 3000000, 100 } };
#define SIZES (sizeof(sizes) / sizeof(*sizes))

static uint64_t size_at(double percent)
{
	unsigned int i = 1;

	while (i < SIZES - 1 && sizes[i].percent < percent)
		i++;
	return sizes[i - 1].bytes + (sizes[i].bytes - sizes[i - 1].bytes) * (percent - sizes[i - 1].percent) /
					    (sizes[i].percent - sizes[i - 1].percent);
}

static double mean_size(void)
{
	double sum = 0;

	for (unsigned int i = 1; i < SIZES; i++)
		sum += (sizes[i].bytes + sizes[i - 1].bytes) / 2 * (sizes[i].percent - sizes[i - 1].percent) / 100;
	return sum;
}

/* Something that was asked for. */
struct job {
	double began, took;
	uint64_t bytes;
	unsigned int host, wait; /* of the answers; which one gives it, if one does */
};

struct jobs {
	struct job *all;
	unsigned int number, begun, done;
};

/* A connection, with whatever is to come over it, in order. */
struct line {
	int fd;
	uint64_t came, until; /* the end of the first answer that is awaited */
	unsigned int *asked, first, last;
	struct jobs *jobs;
};

static void arrivals(struct jobs *jobs, uint64_t seed, double during, double gap, uint64_t size, unsigned int hosts)
{
	unsigned int room = 1000;
	double at = 0;

	jobs->all = malloc(room * sizeof(*jobs->all));
	while ((at -= gap * log(uniform(&seed))) < during) {
		struct job *job;

		if (jobs->number == room)
			jobs->all = realloc(jobs->all, (room *= 2) * sizeof(*jobs->all));
		job = &jobs->all[jobs->number++];
		*job = (struct job){ .began = at, .bytes = size, .wait = hosts };
		if (!size)
			*job = (struct job){ at, 0, size_at(100 * uniform(&seed)), next(&seed) % hosts, 1 };
	}
}

static void ask(struct line *line, unsigned int job)
{
	struct request asked = { line->jobs->all[job].bytes, 0 };

	if (line->first == line->last)
		line->until = line->came + asked.answer;
	line->asked[line->last++] = job;
	if (write(line->fd, &asked, sizeof(asked)) != sizeof(asked))
		fail("asking: %s", strerror(errno));
}

static void hear(struct line *line, double now)
{
	line->came += take(line->fd, line->came, line->first < line->last ? line->until - line->came : 1);
	if (line->first == line->last || line->came != line->until)
		return;
	struct job *job = &line->jobs->all[line->asked[line->first++]];

	if (!--job->wait) {
		job->took = now - job->began;
		line->jobs->done++;
	}
	if (line->first < line->last)
		line->until += line->jobs->all[line->asked[line->first]].bytes;
}

static int by_time(const void *a, const void *b)
{
	const struct job *one = a, *other = b;

	return (one->took > other->took) - (one->took < other->took);
}

static void tell(const char *what, struct jobs *jobs)
{
	double sum = 0;

	qsort(jobs->all, jobs->number, sizeof(*jobs->all), by_time);
	for (unsigned int i = 0; i < jobs->number; i++)
		sum += jobs->all[i].took;
	printf("%s %u, mean %.2f ms, median %.2f ms, p99 %.2f ms, longest %.2f ms\n", what, jobs->number,
	       1e3 * sum / jobs->number, 1e3 * jobs->all[jobs->number / 2].took,
	       1e3 * jobs->all[(unsigned int)(jobs->number * 0.99)].took, 1e3 * jobs->all[jobs->number - 1].took);
}

static void incast(const char *port, uint64_t seed, double during, double rate, uint64_t size, double load,
		   double background, unsigned int hosts, char **host)
{
	struct jobs requests = {}, others = {};
	struct pollfd polls[2 * hosts];
	struct line lines[2 * hosts];
	double began, moved;

	arrivals(&requests, seed, during, hosts * size * 8 / (load * rate), size, hosts);
	arrivals(&others, ~seed, during, mean_size() * 8 / (background * rate), 0, hosts);
	for (unsigned int i = 0; i < 2 * hosts; i++) {
		struct jobs *jobs = i < hosts ? &requests : &others;

		lines[i] = (struct line){ connect_to(host[i % hosts], port), .jobs = jobs };
		lines[i].asked = malloc(jobs->number * sizeof(unsigned int));
		polls[i] = (struct pollfd){ lines[i].fd, POLLIN, 0 };
	}
	began = moved = seconds();
	while (requests.done < requests.number || others.done < others.number) {
		double now = seconds() - began, soon = PATIENCE;

		while (requests.begun < requests.number && requests.all[requests.begun].began <= now) {
			for (unsigned int i = 0; i < hosts; i++)
				ask(&lines[i], requests.begun);
			requests.begun++;
		}
		while (others.begun < others.number && others.all[others.begun].began <= now) {
			ask(&lines[hosts + others.all[others.begun].host], others.begun);
			others.begun++;
		}
		if (requests.begun < requests.number)
			soon = requests.all[requests.begun].began - now;
		if (others.begun < others.number && others.all[others.begun].began - now < soon)
			soon = others.all[others.begun].began - now;
		struct timespec wait = { soon, (soon - (int)soon) * 1e9 };

		if (ppoll(polls, 2 * hosts, &wait, 0) > 0)
			moved = seconds();
		else if (seconds() - moved > PATIENCE)
			fail("nothing moved for %.0f s", PATIENCE);
		for (unsigned int i = 0; i < 2 * hosts; i++)
			if (polls[i].revents)
				hear(&lines[i], seconds() - began);
	}
	tell("requests", &requests);
	tell("others", &others);
}

static void flood(const char *interface, unsigned int flows, unsigned int packets, unsigned int bytes,
		  double later)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(interface) };
	struct {
		struct ether_header ethernet;
		struct iphdr ip;
		struct udphdr udp;
		unsigned char rest[1500];
	} __attribute__((packed)) frame = {
		.ethernet = { { 2, 0, 0, 0, 0, 2 }, { 2, 0, 0, 0, 0, 1 }, htons(ETHERTYPE_IP) },
		.ip = { .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP, .tot_len = htons(bytes - 14) },
		.udp = { .dest = htons(9), .len = htons(bytes - 34) },
	};
	char control[CMSG_SPACE(sizeof(uint64_t))] = {};
	struct iovec data = { &frame, bytes };
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *when = CMSG_FIRSTHDR(&message);
	uint64_t at_once = (seconds() + later) * 1e9;
	struct sock_txtime clock = { .clockid = CLOCK_MONOTONIC };
	int fd = socket(AF_PACKET, SOCK_RAW, 0), room = 1 << 30;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) ||
	    setsockopt(fd, SOL_SOCKET, SO_TXTIME, &clock, sizeof(clock)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		fail("%s: %s", interface, strerror(errno));
	*when = (struct cmsghdr){ CMSG_LEN(sizeof(at_once)), SOL_SOCKET, SCM_TXTIME };
	memcpy(CMSG_DATA(when), &at_once, sizeof(at_once));
	frame.ip.saddr = inet_addr("10.0.0.1");
	frame.ip.daddr = inet_addr("10.0.0.2");
	for (unsigned int i = 0; i < flows * packets; i++) {
		/* By which turns() tells which was first. */
		uint64_t number = seconds() * 1e9;

		memcpy(frame.rest, &number, sizeof(number));
		frame.udp.source = htons(1000 + i % flows);
		/* It may be dropped. */
		if (sendmsg(fd, &message, 0) < 0 && errno != ENOBUFS)
			fail("%s: %s", interface, strerror(errno));
	}
}

static void wire(const char *path, double rate)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	double begun = seconds(), taken = 0;
	static char bytes[8192];
	/* Little is on its way, as on a wire. */
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), room = 8192;
	ssize_t n;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	while (connect(fd, (struct sockaddr *)&at, sizeof(at))) {
		if (seconds() - begun > PATIENCE)
			fail("%s: %s", path, strerror(errno));
		usleep(100000);
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
		double now = seconds();

		/* Time without packets is not made up for. */
		if (begun + taken / rate < now)
			begun = now - taken / rate;
		taken += n;
		usleep(1e6 * (begun + taken / rate - now));
	}
}

static void turns(const char *interface, unsigned int packets)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETHERTYPE_IP),
				  .sll_ifindex = if_nametoindex(interface) };
	struct timeval patience = { PATIENCE };
	int fd = socket(AF_PACKET, SOCK_DGRAM, 0), last = -1, changes = 0, room = 1 << 24;
	struct tpacket_stats seen = {};
	socklen_t length = sizeof(seen);
	static uint64_t latest[65536];
	struct {
		struct iphdr ip;
		struct udphdr udp;
		uint64_t number;
	} __attribute__((packed)) packet;

	/* The usual room is that of 167 such packets, fewer than a gate lets go at once. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		fail("%s: %s", interface, strerror(errno));
	puts("ready");
	fflush(stdout);
	while (packets) {
		if (recv(fd, &packet, sizeof(packet), 0) < 0) {
			getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &seen, &length);
			fail("%s: %u packets did not come, and for %u there was no room here", interface, packets,
			     seen.tp_drops);
		}
		if (packet.ip.protocol != IPPROTO_UDP || packet.udp.dest != htons(9))
			continue;
		changes += last >= 0 && last != packet.udp.source;
		last = packet.udp.source;
		if (packet.number < latest[last])
			fail("%s: a packet of port %u overtook another", interface, ntohs(last));
		latest[last] = packet.number;
		packets--;
	}
	printf("turns %d\n", changes);
}

/* Between a reading of the clock and the counter's a loaded machine may do else: those nearest together count. */
static void both_now(double *clock, uint64_t *ticks)
{
	double nearest = 1;

	for (int i = 0; i < 100; i++) {
		double before = seconds(), apart;
		uint64_t counted = __builtin_ia32_rdtsc();

		apart = seconds() - before;
		if (apart < nearest) {
			nearest = apart;
			*clock = before + apart / 2;
			*ticks = counted;
		}
	}
}

static void count_ticks(void)
{
	double clock[2] = {};
	uint64_t ticks[2] = {};

	both_now(clock, ticks);
	usleep(100000);
	both_now(clock + 1, ticks + 1);
	printf("%.0f\n", (ticks[1] - ticks[0]) / (clock[1] - clock[0]) / 1e3);
}

int main(int count, char **words)
{
	uint64_t seed = 1;

	if (count == 2 && !strcmp(words[1], "mark")) {
		/* What marks.c looks for: nopl 0x6b72616d(%rax) */
		__asm__ volatile(".byte 0x0f, 0x1f, 0x80, 'm', 'a', 'r', 'k'");
		return 0;
	}
	if (count == 2 && !strcmp(words[1], "ticks")) {
		count_ticks();
		return 0;
	}
	for (unsigned int i = 0; i < PATTERN; i++)
		pattern[i] = next(&seed);
	memcpy(pattern + PATTERN, pattern, PIECE);
	signal(SIGPIPE, SIG_IGN);
	if (count == 3 && !strcmp(words[1], "serve"))
		serve(words[2]);
	else if (count == 6 && !strcmp(words[1], "both"))
		both(words[2], words[3], atof(words[4]), atoll(words[5]));
	else if (count == 7 && !strcmp(words[1], "flood"))
		flood(words[2], atoi(words[3]), atoi(words[4]), atoi(words[5]), atof(words[6]));
	else if (count == 4 && !strcmp(words[1], "wire"))
		wire(words[2], atof(words[3]));
	else if (count == 4 && !strcmp(words[1], "turns"))
		turns(words[2], atoi(words[3]));
	else if (count > 9 && !strcmp(words[1], "incast"))
		incast(words[2], atoll(words[3]), atof(words[4]), atof(words[5]), atoll(words[6]), atof(words[7]),
		       atof(words[8]), count - 9, words + 9);
	else
		fail("serve, both, incast, flood, ticks, turns, wire or mark, as load.c says");
	return 0;
}
