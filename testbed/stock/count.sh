#!/bin/dash
# Runs as init of a stock kernel whose clock ticks once for each instruction; see boot --count. The
# kernel's packet generator sends through a qdisc to a device that drops everything.
export PATH=/bin HOME=/root TC_LIB_DIR=/lib
packets=20000
say() { echo "GUEST: $*"; }
finish() {
    sync
    poweroff -f
}
fail() {
    say "FAILED: $*"
    cat /tmp/log
    finish
}
tell() { echo "$2" >"/proc/net/pktgen/$1" || fail "pktgen: $2"; }

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
say "Linux $(uname -r), clock $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
for module in dummy sch_ingress cls_bpf sch_fq sch_onramp pktgen; do
    insmod /modules/$module.ko >/tmp/log 2>&1 || fail "module $module"
done
ip link set lo up
ip link add sink type dummy
ip addr add 10.0.0.1/24 dev sink
ip link set sink up

# count FLOWS TEXT: nanoseconds, which are instructions, from one packet to the next
count() {
    tell kpktgend_0 rem_device_all
    tell kpktgend_0 "add_device sink"
    for line in "count $packets" "clone_skb 0" "pkt_size 1442" "delay 0" "src_min 10.0.0.1" "src_max 10.0.0.1" \
        "dst 10.0.0.2" "dst_mac 02:00:00:00:00:02" "udp_dst_min 9000" "udp_dst_max 9000" "udp_src_min 1000" \
        "udp_src_max $((1000 + $1))" "xmit_mode queue_xmit"; do
        tell sink "$line"
    done
    # The first round fills caches and makes the flows.
    for round in 1 2; do tell pgctrl start; done
    us=$(sed -n 's/.*OK: \([0-9]*\)(.*/\1/p' /proc/net/pktgen/sink)
    [ "$us" ] || { cat /proc/net/pktgen/sink >/tmp/log; fail "no result"; }
    say "$2, $1 flows: $((us * 1000 / packets)) instructions a packet"
}

echo 000102030405060708090a0b0c0d0e0f >/tmp/key
chmod 600 /tmp/key
# agent PEER KIND: On-Ramp, with one peer and a gate of the kind
agent() {
    printf '%s\n' 'mode = "enforce"' 'interface = "sink"' 'threshold = "500us"' 'key_file = "/tmp/key"' 'clock = "shared"' \
        'socket = "/tmp/sock"' 'state_dir = "/run/onrampd"' "peers = [\"$1\"]" "gate.kind = \"$2\"" >/tmp/onrampd.toml
    onrampd run --config /tmp/onrampd.toml >/tmp/log 2>&1 &
    pid=$!
    for i in $(seq 300); do
        grep -q '^ready' /tmp/log && return
        sleep 0.2
    done
    fail "the agent did not get ready"
}

grep -q bpf_qdisc_init_prologue /sys/kernel/btf/vmlinux && programs=bpf
if [ -e /lib/fair.o ]; then
    bpftool struct_ops register /lib/fair.o >/tmp/log 2>&1 || fail "the kernel's own fair queue"
    fair=bpf_fq
fi
# The very first packets are slower, whatever they pass through.
count 1 "first" >/tmp/log
for flows in 1 64; do
    tc qdisc replace dev sink root noqueue && count $flows "noqueue"
    for kind in pfifo fq_codel fq $fair onramp; do
        tc qdisc replace dev sink root $kind >/tmp/log 2>&1 && count $flows "$kind"
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
say "all held"
finish
