# Sourced by measurements of a qdisc on a stock kernel whose clock ticks once for each instruction; see boot. The
# kernel's packet generator sends through it to a device that drops everything. The last output is in /tmp/last.log.
. /lib/common.sh
trace=/sys/kernel/tracing
mount -t tracefs trace $trace
say "clock $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
tell() { echo "$2" >"/proc/net/pktgen/$1" || fail "pktgen: $2"; }

# sink MODULE…: the device, and the modules of its qdiscs
sink() {
    modules dummy "$@" pktgen
    ip link add sink type dummy
    ip link set sink up
}
# generate LINE…: the generator's settings
generate() {
    tell kpktgend_0 rem_device_all
    tell kpktgend_0 "add_device sink"
    for line in "clone_skb 0" "dst_mac 02:00:00:00:00:02" "src_min 10.0.0.1" "udp_src_min 1000" "xmit_mode queue_xmit" "$@"; do
        tell sink "$line"
    done
}
