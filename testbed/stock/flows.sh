#!/bin/dash
# A hundred thousand flows: what they take of memory, and the longest that one dequeue takes; see boot --flows.
. /lib/pktgen.sh
sink sch_tbf sch_onramp
ip link set sink mtu 9000
# The value of "KEY N" in the gate's statistics.
value() { tc -s qdisc show dev sink | sed -n "s/.*$1 \([0-9]*\).*/\1/p" | tail -n 1; }

# Only what took long is written down.
echo 5 >$trace/tracing_thresh
echo onramp_dequeue >$trace/set_ftrace_filter || fail "onramp_dequeue cannot be traced"
echo 32768 >$trace/buffer_size_kb

# flows NUMBER PACKETS BYTES TEXT [OPTION…]: so many packets of each, which have to wait; then they go
# at once
flows() {
    number=$(($1 * $2)) size=$3 text=$4
    # The numbers of ports and of addresses have no common divisor.
    if [ $1 -gt 50000 ]; then ports=50000 addresses=7; else ports=$1 addresses=1; fi
    shift 4
    tc qdisc add dev sink root handle 1: tbf rate 8kbit burst 16kb limit 2gb
    tc qdisc add dev sink parent 1:1 handle 10: onramp flows 200000 limit 200000 bytes 2gb "$@"
    free=$(sed -n 's/MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo)
    generate "count $number" "pkt_size $size" "delay 0" "src_max 10.0.0.$addresses" "dst 10.0.1.2" \
        "udp_src_max $((1000 + ports))"
    # It ends once its last packet is gone.
    tell pgctrl start &
    # The shaper lets some go.
    until [ "$(value "backlog [0-9KMb]*")" -ge $((number * 98 / 100)) ]; do sleep 1; done
    set -- $(grep '^onramp_queue ' /proc/slabinfo)
    say "$text: $(value '  flows') flows, ${4:-?} bytes each, $(value 'dropped for limit') dropped"
    taken=$((free - $(sed -n 's/MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo)))
    say "$text: $((taken / 1024)) MiB taken, packets included"
    echo >$trace/trace
    echo function_graph >$trace/current_tracer
    tc qdisc change dev sink root handle 1: tbf rate 100gbit burst 16mb limit 2gb
    for i in $(seq 600); do
        [ "$(value 'backlog [0-9KMb]*')" = 0 ] && break
        sleep 1
    done
    tc -s qdisc show dev sink >/tmp/last.log
    [ "$(sed -n 's/^ Sent [0-9]* bytes \([0-9]*\) .*/\1/p' /tmp/last.log | head -n 1)" -ge "$number" ] || fail "not every packet came out"
    longest=$(sed -n 's/.* \([0-9][0-9.]*\) us .*onramp_dequeue.*/\1/p' $trace/trace | sort -n | tail -n 1)
    say "$text: longest dequeue ${longest:-below 5} us, which are a thousand instructions each"
    [ "${longest%%.*}" -lt 1000 ] 2>/dev/null || [ ! "$longest" ] || fail "a dequeue takes too long"
    echo nop >$trace/current_tracer
    tc qdisc del dev sink root
}

flows 10000 1 1400 "10000 flows"
flows 100000 1 200 "100000 flows"
flows 10000 2 8000 "10000 flows whose packets take 31 turns each" quantum 256
finish 0
