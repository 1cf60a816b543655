#!/bin/dash
# What a qdisc costs; see boot --count.
. /lib/pktgen.sh
packets=20000
sink sch_ingress cls_bpf sch_fq sch_onramp
ip addr add 10.0.0.1/24 dev sink

# count FLOWS TEXT: nanoseconds, which are instructions, from one packet to the next
count() {
    generate "count $packets" "pkt_size 1442" "delay 0" "src_max 10.0.0.1" "dst 10.0.0.2" "udp_dst_min 9000" \
        "udp_dst_max 9000" "udp_src_max $((1000 + $1))"
    # The first round fills caches and makes the flows.
    for round in 1 2; do tell pgctrl start; done
    us=$(sed -n 's/.*OK: \([0-9]*\)(.*/\1/p' /proc/net/pktgen/sink)
    [ "$us" ] || { cat /proc/net/pktgen/sink >/tmp/last.log; fail "no result"; }
    say "$2, $1 flows: $((us * 1000 / packets)) instructions a packet"
}

# agent PEER KIND: On-Ramp, with one peer and a gate of the kind
agent() {
    printf '%s\n' 'mode = "enforce"' 'interface = "sink"' 'threshold = "500us"' 'key_file = "/tmp/key"' 'clock = "shared"' \
        'socket = "/tmp/sock"' 'state_dir = "/run/onrampd"' "peers = [\"$1\"]" "gate.kind = \"$2\"" 'gate.target = "5ms"' >/tmp/onrampd.toml
    onrampd run --config /tmp/onrampd.toml >/tmp/last.log 2>&1 &
    pid=$!
    wait_for "the agent is ready" grep -q '^ready' /tmp/last.log
}

grep -q bpf_qdisc_init_prologue /sys/kernel/btf/vmlinux && programs=bpf
if [ -e /lib/fair.o ]; then
    bpftool struct_ops register /lib/fair.o >/tmp/last.log 2>&1 || fail "the kernel's own fair queue"
    fair=bpf_fq
fi
# The very first packets are slower, whatever they pass through.
count 1 "first" >/tmp/last.log
for flows in 1 64; do
    tc qdisc replace dev sink root noqueue && count $flows "noqueue"
    for kind in pfifo fq_codel fq $fair onramp; do
        tc qdisc replace dev sink root $kind >/tmp/last.log 2>&1 && count $flows "$kind"
    done
    tc qdisc del dev sink root
    for kind in module $programs; do
        for peer in 10.0.0.9 10.0.0.2; do
            agent $peer $kind
            who=$([ $peer = 10.0.0.2 ] && echo a peer || echo no peer)
            count $flows "onramp $([ $kind = bpf ] && echo "as a" || echo "with its") program, receiver $who"
            kill $pid && wait $pid
        done
    done
done
finish 0
