#!/bin/dash
# What fq, htb and the gate take for a packet when up to 100,000 flows all wait for their rate: each
# flow gets a tenth more packets than it may send, so that every packet has to wait. See boot --throttled.
. /lib/pktgen.sh
# Packets a second, of all flows, and bytes of each on the wire; the trace is this long.
rate=100000 size=200
window=0.4
sent() { tc -s qdisc show dev sink | sed -n 's/^ Sent [0-9]* bytes \([0-9]*\) .*/\1/p' | head -n 1; }
sink sch_ingress cls_bpf cls_flow sch_fq sch_htb sch_onramp
echo 60000 >$trace/buffer_size_kb
echo 1 >$trace/options/funcgraph-tail

# count KIND FLOWS: instructions a packet in enqueue and dequeue
count() {
    kind=$1 flows=$2
    # The numbers of ports and of addresses have no common divisor.
    if [ $flows -gt 60000 ]; then ports=$((flows / 7)) addresses=7; else ports=$flows addresses=1; fi
    flows=$((ports * addresses))
    # Of a flow: bytes a second, and microseconds from one packet to the next.
    each=$((rate * size * 10 / 11 / flows)) gap=$((flows * 11 * 100000 / rate))
    priority=0
    case $kind in
    fq) tc qdisc replace dev sink root fq limit 1000000 flow_limit 100000 buckets 65536 maxrate ${each}bps quantum $size \
        initial_quantum $size orphan_mask 16777215 low_rate_threshold 1gbit timer_slack 1 >/tmp/last.log 2>&1 || fail "fq" ;;
    htb)
        {
            echo "qdisc replace dev sink root handle 1: htb"
            seq $flows | awk '{ printf "class add dev sink parent 1: classid 1:%x htb rate '$each'bps burst '$size' cburst '$size' quantum 1514\n", $1 }'
            echo "filter add dev sink parent 1: protocol ip handle 1 flow map key proto-src addend -1000 divisor $flows baseclass 1:1"
        } >/tmp/batch
        tc -batch /tmp/batch >/tmp/last.log 2>&1 || fail "htb"
        ;;
    onramp)
        tc qdisc replace dev sink root onramp flows 200000 limit 1000000 bytes 2gb flow_limit 100000 >/tmp/last.log 2>&1 || fail "onramp"
        tc qdisc add dev sink clsact && tc filter add dev sink egress bpf da obj /lib/pace.o sec tc >/tmp/last.log 2>&1 || fail "pace"
        priority=$gap
        ;;
    esac
    packets=$((2 * flows + rate * 8 / 10))
    generate "count $packets" "pkt_size $size" "ratep $rate" "skb_priority $priority" "src_max 10.0.0.$addresses" \
        "dst 10.0.1.2" "udp_src_max $((1000 + ports))"
    echo ${kind}_enqueue ${kind}_dequeue flow_classify >$trace/set_ftrace_filter || fail "${kind} cannot be traced"
    echo 0 >$trace/tracing_on
    echo function_graph >$trace/current_tracer
    echo >$trace/trace
    tell pgctrl start &
    until [ "$(sed -n 's/.*pkts-sofar: \([0-9]*\).*/\1/p' /proc/net/pktgen/sink)" -ge $((2 * flows)) ]; do sleep 0.05; done
    before=$(sent)
    echo 1 >$trace/tracing_on
    sleep $window
    echo 0 >$trace/tracing_on
    after=$(sent)
    awk -v sent=$((after - before)) -v what="$kind, $flows flows" '
        { for (i = 2; i <= NF; i++) if ($i == "us") us = $(i - 1)
          name = /_enqueue/ ? "in" : /_dequeue/ ? "out" : /_classify/ ? "class" : ""
          if (name == "" || !/us / || / \{$/) next
          n[name]++; sum[name] += us }
        END { if (!n["in"] || !sent) exit 1
          # A classifier is called in enqueue, and counted there too.
          printf "GUEST: %s: %d instructions a packet: %d in enqueue (%d of them to classify), %d in %.2f dequeues; %d packets\n", what,
            1000 * (sum["in"] / n["in"] + sum["out"] / sent), 1000 * sum["in"] / n["in"], 1000 * sum["class"] / n["in"],
            1000 * sum["out"] / sent, n["out"] / sent, sent }' $trace/trace || { head -n 20 $trace/trace >/tmp/last.log; fail "nothing was traced"; }
    echo nop >$trace/current_tracer
    # What still waits is not waited for.
    echo stop >/proc/net/pktgen/pgctrl
    wait
    tc qdisc del dev sink root
    tc qdisc del dev sink clsact 2>/dev/null
}

for flows in 10 100 1000 10000 100000; do
    for kind in fq htb onramp; do
        # A classid has 16 bits, and tens of thousands of classes take their time to be made.
        [ $kind = htb ] && [ $flows -gt 10000 ] || count $kind $flows
    done
done
finish 0
