#!/bin/dash
# Table 1 of the paper, in instructions: what a sender and its receiver need for a stream of TCP, with fq, and with
# On-Ramp in either kind of gate. The sender has the first processor, the receiver the second; see boot --cpu.
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf sch_fq sch_onramp
hosts
# What has come to a host is taken by its processor, whichever sent it.
steer() { ip netns exec $1 sh -c "echo $2 >/sys/class/net/eth0/queues/rx-0/rps_cpus"; }
received() { ip netns exec b cat /sys/class/net/eth0/statistics/rx_bytes; }

# stream WHAT: its bytes and instructions between two marks
stream() {
    ip netns exec b taskset 2 iperf3 -s -1 >/tmp/b.iperf 2>&1 &
    sleep 0.5
    ip netns exec a taskset 1 iperf3 -c 10.0.0.2 -t 3 >/tmp/a.iperf 2>&1 &
    client=$!
    sleep 1.5
    before=$(received)
    load mark
    sleep 1
    load mark
    after=$(received)
    wait $client || { cat /tmp/a.iperf; fail "iperf3 $1"; }
    say "$1: $((after - before)) bytes"
}

steer a 1
steer b 2
for segments in on off; do
    for host in a b; do check "segments $segments on $host" ip netns exec $host ethtool -K eth0 tso $segments gso $segments gro $segments; done
    tc -n a qdisc replace dev eth0 root fq
    stream "segments $segments, fq"
    tc -n a qdisc del dev eth0 root
    for gate in $([ -e /modules/sch_onramp.ko ] && echo module) bpf; do
        start a enforce eth0 0ns 10.0.0.2
        start b enforce eth0 0ns 10.0.0.1
        taskset -p 1 $pid_a >/dev/null
        taskset -p 2 $pid_b >/dev/null
        stream "segments $segments, On-Ramp, $gate"
        acked "$gate" 10
        stop a
        stop b
    done
done
complain
finish 0
