// Runs a list of flows in htsim and prints when each completes.
//
//     htsim-flows swift|dctcp|tcp < LIST
//
// The list's first line has 11 numbers: leaves, spines, hosts of a leaf, rates of hosts' and of leaves' other
// links [Gb/s], delay of a link [ps], size of a packet [B], buffer and marking threshold of a port [packets],
// initial window [packets] and a seed. Each further line is a flow: its source, destination, packets and start
// [ps]. A line of output has a flow's number and its completion time [ps]: from its start until its source has
// the last acknowledgement (Swift), or its destination the last byte (DCTCP, TCP).
//
// The network is made of htsim's queues and pipes: one leaf without spines is a star. A flow's data and its
// acknowledgements each take a spine at random. tests/htsim.py compiles and runs this.

#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "dctcp.h"
#include "ecnqueue.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "swift.h"
#include "swift_scheduler.h"
#include "tcp.h"

namespace {

struct Setting {
    size_t leaves, spines, hosts_per_leaf;
    double host_gbps, fabric_gbps;
    simtime_picosec delay;
    int packet, buffer, threshold, window;
    unsigned seed;
};

struct Flow {
    size_t src, dst;
    uint64_t packets;
    simtime_picosec start;
};

std::vector<simtime_picosec> finished;

// A sender of TCP on a connection that is open.
template <class Source> class Open : public Source {
public:
    Open(EventList &events, uint64_t bytes) : Source(nullptr, nullptr, events)
    {
        // It adds a packet, and sends while what it has sent is at most one byte more than that.
        this->set_flowsize(bytes - this->_mss - 2);
        this->set_ssthresh(0xffffffff);
    }

    void doNextEvent() override
    {
        if (this->_established || this->_rtx_timeout_pending)
            return Source::doNextEvent();
        // State after the answer to a SYN.
        this->_established = true;
        this->_highest_sent = this->_last_acked = this->_sink->_cumulative_ack = 1;
        this->_unacked = this->_cwnd;
        this->send_packets();
    }
};

// A receiver of TCP that notes when it has all.
class Noting : public TcpSink {
public:
    Noting(size_t number, uint64_t bytes) : number_(number), bytes_(bytes) {}

    void receivePacket(Packet &packet) override
    {
        TcpSink::receivePacket(packet);
        if (finished[number_] == 0 && _cumulative_ack > bytes_)
            finished[number_] = EventList::now();
    }

private:
    size_t number_;
    uint64_t bytes_;
};

class Network {
public:
    Network(const Setting &setting, bool swift, EventList &events) : setting_(setting)
    {
        const linkspeed_bps host = speedFromGbps(setting.host_gbps), fabric = speedFromGbps(setting.fabric_gbps);
        for (size_t i = 0; i < setting.leaves * setting.hosts_per_leaf; i++) {
            BaseQueue *nic;
            if (swift)
                nic = new FairScheduler(host, events, nullptr);
            else
                nic = new FairPriorityQueue(host, mem_b(1) << 40, events, nullptr);
            up_.push_back(Link{nic, new Pipe(setting.delay, events)});
            down_.push_back(port(host, events));
        }
        for (size_t i = 0; i < setting.leaves * setting.spines; i++) {
            to_spine_.push_back(port(fabric, events));
            to_leaf_.push_back(port(fabric, events));
        }
    }

    // A way from one host to another, without its end.
    Route *way(size_t src, size_t dst) const
    {
        Route *route = new Route();
        add(route, up_[src]);
        const size_t from = src / setting_.hosts_per_leaf, to = dst / setting_.hosts_per_leaf;
        if (from != to) {
            const size_t spine = size_t(rand()) % setting_.spines;
            add(route, to_spine_[from * setting_.spines + spine]);
            add(route, to_leaf_[to * setting_.spines + spine]);
        }
        add(route, down_[dst]);
        return route;
    }

private:
    struct Link {
        BaseQueue *queue;
        Pipe *pipe;
    };

    Link port(linkspeed_bps rate, EventList &events) const
    {
        const mem_b packet = setting_.packet;
        return Link{new ECNQueue(rate, packet * setting_.buffer, events, nullptr, packet * setting_.threshold),
                    new Pipe(setting_.delay, events)};
    }

    static void add(Route *route, const Link &link)
    {
        route->push_back(link.queue);
        route->push_back(link.pipe);
    }

    Setting setting_;
    std::vector<Link> up_, down_, to_spine_, to_leaf_;
};

template <class Source>
void open(const Flow &flow, size_t number, const Setting &setting, const Network &network, EventList &events,
          TcpRtxTimerScanner &timers)
{
    const uint64_t bytes = flow.packets * uint64_t(setting.packet);
    Source *source = new Source(events, bytes);
    source->set_cwnd(uint64_t(setting.window) * uint64_t(setting.packet));
    TcpSink *sink = new Noting(number, bytes);
    timers.registerTcp(*source);
    Route *there = network.way(flow.src, flow.dst), *back = network.way(flow.dst, flow.src);
    there->push_back(sink);
    back->push_back(source);
    source->connect(*there, *back, *sink, flow.start);
}

void open_swift(const Flow &flow, size_t number, const Setting &setting, const Network &network, EventList &events,
                SwiftRtxTimerScanner &timers)
{
    SwiftSrc *source = new SwiftSrc(timers, nullptr, nullptr, events);
    source->set_cwnd(uint32_t(setting.window) * uint32_t(setting.packet));
    // It adds a packet.
    source->set_flowsize((flow.packets - 1) * uint64_t(setting.packet));
    source->setName(std::to_string(number));
    source->connect(*network.way(flow.src, flow.dst), *network.way(flow.dst, flow.src), *new SwiftSink(), flow.start);
}

// Completions of Swift's flows, which its source prints: "Flow NUMBER finished at MICROSECONDS total bytes ...".
void read_swift(std::istream &output)
{
    std::string line, word;
    while (std::getline(output, line)) {
        std::istringstream words(line);
        size_t number;
        double us;
        if (words >> word && word == "Flow" && words >> number >> word && word == "finished" &&
            words >> word >> us && finished[number] == 0)
            finished[number] = simtime_picosec(us * 1e6 + 0.5);
    }
}

} // namespace

int main(int argc, char **argv)
{
    const std::string kind = argc == 2 ? argv[1] : "";
    Setting setting;
    if (!(kind == "swift" || kind == "dctcp" || kind == "tcp") ||
        !(std::cin >> setting.leaves >> setting.spines >> setting.hosts_per_leaf >> setting.host_gbps >>
          setting.fabric_gbps >> setting.delay >> setting.packet >> setting.buffer >> setting.threshold >>
          setting.window >> setting.seed)) {
        std::cerr << "usage: htsim-flows swift|dctcp|tcp < LIST\n";
        return 2;
    }
    std::vector<Flow> flows;
    for (Flow flow; std::cin >> flow.src >> flow.dst >> flow.packets >> flow.start;)
        flows.push_back(flow);
    finished.assign(flows.size(), 0);
    srand(setting.seed);

    // htsim's own lines, with times to the picosecond.
    std::stringstream said;
    std::cout.precision(15);
    std::streambuf *out = std::cout.rdbuf(said.rdbuf());

    Packet::set_packet_size(setting.packet);
    EventList &events = EventList::getTheEventList();
    EventList::setEndtime(flows.back().start + timeFromMs(1000));
    TcpRtxTimerScanner tcp_timers(timeFromMs(10), events);
    SwiftRtxTimerScanner swift_timers(timeFromMs(10), events);
    const Network network(setting, kind == "swift", events);
    for (size_t i = 0; i < flows.size(); i++) {
        if (kind == "swift")
            open_swift(flows[i], i, setting, network, events, swift_timers);
        else if (kind == "dctcp")
            open<Open<DCTCPSrc>>(flows[i], i, setting, network, events, tcp_timers);
        else
            open<Open<TcpSrc>>(flows[i], i, setting, network, events, tcp_timers);
    }
    while (EventList::doNextEvent()) {
    }
    read_swift(said);
    std::cout.rdbuf(out);
    for (size_t i = 0; i < flows.size(); i++)
        std::cout << i << ' ' << (finished[i] ? sint64_t(finished[i] - flows[i].start) : -1) << '\n';
}
