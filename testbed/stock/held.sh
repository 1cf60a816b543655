#!/bin/dash
# What the gate takes for a packet while ever more flows wait, as a module and as a program; see boot --held.
# Each flow gets a tenth more packets than it may send, so that every packet has to wait.
. /lib/pktgen.sh
# Packets a second, of all flows, and bytes of each on the wire; seconds that are counted: twice what the most flows have from packet to packet.
rate=50000 size=200 window=0.44
sink sch_ingress cls_bpf sch_onramp
echo 60000 >$trace/buffer_size_kb
echo 1 >$trace/options/funcgraph-tail
echo onramp_enqueue onramp_dequeue >$trace/set_ftrace_filter || fail "the module cannot be traced"
echo 1 >/proc/sys/kernel/bpf_stats_enabled
sent() { tc -s qdisc show dev sink | sed -n 's/^ Sent [0-9]* bytes \([0-9]*\) .*/\1/p' | head -n 1; }

# taken KIND: instructions and calls so far. A clock tick is one. The kernel counts them for programs (27: struct_ops).
taken() {
    case $1 in
    bpf) cat /proc/$pid/fdinfo/* 2>/dev/null | awk '
        $1 == "prog_type:" { ours = $2 == 27 } $1 == "prog_id:" { id = $2 }
        ours && $1 == "run_time_ns:" { time[id] = $2 } ours && $1 == "run_cnt:" { calls[id] = $2 }
        END { for (id in time) { t += time[id]; n += calls[id] } printf "%d %d\n", t, n }' ;;
    module) awk '
        /onramp_(en|de)queue/ && / us / { for (i = 2; i <= NF; i++) if ($i == "us") { t += $(i - 1); n++ } }
        END { printf "%d %d\n", 1000 * t, n }' $trace/trace ;;
    esac
}

# count KIND FLOWS SECTION TEXT: the section is of pace.c, and says when packets are to leave
count() {
    gap=$(($2 * 11 * 100000 / rate))
    printf '%s\n' 'mode = "enforce"' 'interface = "sink"' 'threshold = "500us"' 'key_file = "/tmp/key"' 'clock = "shared"' \
        'socket = "/tmp/sock"' 'state_dir = "/run/onrampd"' 'peers = ["10.0.0.9"]' '[gate]' "kind = \"$1\"" \
        'limit = 16383' 'flows = 16382' 'flow_limit = 16383' >/tmp/onrampd.toml
    onrampd run --config /tmp/onrampd.toml >/tmp/last.log 2>&1 &
    pid=$!
    wait_for "the agent is ready" grep -q '^ready' /tmp/last.log >/dev/null
    tc qdisc add dev sink clsact 2>/dev/null
    tc filter add dev sink egress bpf da obj /lib/pace.o sec $3 >/tmp/filter.log 2>&1 || fail "pace"
    generate "count 0" "pkt_size $size" "ratep $rate" "skb_priority $gap" "src_max 10.0.0.1" "dst 10.0.1.2" \
        "udp_src_max $((1000 + $2))"
    [ $1 = bpf ] || { echo 0 >$trace/tracing_on; echo function_graph >$trace/current_tracer; echo >$trace/trace; }
    tell pgctrl start &
    until [ "$(sed -n 's/.*pkts-sofar: \([0-9]*\).*/\1/p' /proc/net/pktgen/sink)" -ge $((2 * $2)) ]; do sleep 0.05; done
    sleep 0.1
    waiting=$(onrampctl status --json --socket /tmp/sock | number throttled_flows)
    before="$(taken $1) $(sent)"
    [ $1 = bpf ] || echo 1 >$trace/tracing_on
    sleep $window
    echo 0 >$trace/tracing_on
    sent=$(sent)
    after="$(taken $1) $sent"
    echo $before $after | awk -v what="$1, $2 flows, $waiting of them wait, $4" '{
        if ($6 <= $3) exit 1
        printf "GUEST: %s: %d instructions a packet, %.2f calls; %d packets\n", what, ($4 - $1) / ($6 - $3), ($5 - $2) / ($6 - $3), $6 - $3 }' ||
        fail "nothing was counted: $before, $after"
    echo stop >/proc/net/pktgen/pgctrl
    wait $!
    echo nop >$trace/current_tracer
    kill $pid && wait $pid
    tc qdisc del dev sink clsact 2>/dev/null
}

grep -q bpf_qdisc_init_prologue /sys/kernel/btf/vmlinux && programs=bpf
for kind in module $programs; do
    for flows in 10 1000 10000; do
        count $kind $flows tc "each at its own time"
        # Of more flows more packets wait than a program has room for.
        [ $flows = 10000 ] || count $kind $flows together "all at the same time"
    done
done
finish 0
