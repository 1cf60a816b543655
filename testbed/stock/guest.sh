#!/bin/dash
# The gate between two hosts, a and b, with the agent in each.
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf sch_drr sch_tbf sch_onramp
hosts
gate=module

start a enforce eth0 0ns 10.0.0.2
start b enforce eth0 0ns 10.0.0.1
say "verifier and JIT: ok (jit $(cat /proc/sys/net/core/bpf_jit_enable))"
check "the gate is in place" sh -c "tc -n a -s qdisc show dev eth0 | grep -q 'qdisc onramp.*program onramp_gate'"
send "through the gate"
acked "delays" 50
counts_tcp /tmp/a.sock
echo 1 >/proc/sys/kernel/bpf_stats_enabled
send "with programs' time counted"
ran() { onrampctl status --json --socket /tmp/a.sock | grep -q '"name":"onramp_gate","runs":[1-9]'; }
wait_for "programs' time is counted" ran
echo 0 >/proc/sys/kernel/bpf_stats_enabled
stop a
start a enforce eth0 -100ms 10.0.0.2
send "with delays that look long"
held eth0

# Rules say what is held.
held_times() { qdisc | sed -n 's/.*held \([0-9]*\) for.*/\1/p' | head -n 1; }
scoped held_times

# Switched off, also where the agent cannot say so, and on again.
asks() { qdisc | grep -q 'program onramp_gate'; }
kill -STOP $pid_a
check "onrampd off beside an agent that hangs" off
check "the gate asks no program" not asks
kill -CONT $pid_a
wait_for "the agent says so" says_off
wait_for "and takes its gate away" sh -c "! tc -n a qdisc show dev eth0 | grep -q 'qdisc onramp'"
check "onrampd on" on
wait_for "the gate is back" asks
send "with delays that look long, again"
held eth0

# Five seconds after an agent was killed, and nobody has come for it, its gate holds nothing.
kill -9 $pid_a
sleep 5
was=$(qdisc | sed -n 's/.*held \([0-9]*\) for.*/\1/p')
send "without an agent"
[ "$(qdisc | sed -n 's/.*held \([0-9]*\) for.*/\1/p')" = "$was" ] || { qdisc; fail "a gate without an agent holds"; }
start a enforce eth0 -100ms 10.0.0.2
send "with the next one"

# Data both ways on one connection: a's ACKs do not wait behind its own data, which is held.
both_ways
acks=$(tc -n a -s qdisc show dev eth0 | sed -n 's/.*ACKs before data \([0-9]*\).*/\1/p' | head -n 1)
[ "${acks:-0}" -gt 10 ] || { tc -n a -s qdisc show dev eth0; fail "${acks:-no} ACKs left before held data"; }
say "ACKs before held data: $acks"

# An upgrade under load: the gate stays, with its flows, and nothing is lost.
gate() { tc -n a -s qdisc show dev eth0; }
before=$(gate | head -n 1)
ip netns exec b iperf3 -s -1 -D >/dev/null
sleep 1
ip netns exec a iperf3 -c 10.0.0.2 -n 40M >/tmp/iperf 2>&1 &
load=$!
sleep 1
kill -USR2 $pid_a
wait_for "the new agent is ready" sh -c '[ "$(grep -c ^ready /tmp/a.log)" = 2 ]'
check "traffic goes on during an upgrade" wait $load
[ "$(gate | head -n 1 | cut -d' ' -f 1-5)" = "$(echo "$before" | cut -d' ' -f 1-5)" ] || fail "another gate: $(gate)"
gate | grep -q 'dropped 0,' || { gate; fail "packets were lost"; }
onrampctl status --json --socket /tmp/a.sock | grep -q '"problems": *\[\]' || fail "$(onrampctl status --socket /tmp/a.sock)"
say "upgrade: the same gate, no packet lost"

# Somebody takes the gate's place: it is said, and put back.
tc -n a qdisc replace dev eth0 root pfifo
wait_for "a gate that was replaced is put back" sh -c "tc -n a qdisc show dev eth0 | grep -q 'qdisc onramp'"
check "which is said" grep -q 'the gate was replaced by pfifo' /tmp/a.log
send "through the gate that was put back"

refuse "a limit of 0" tc -n a qdisc add dev lo root onramp limit 0
tc -n a qdisc add dev lo root handle 1: drr
tc -n a class add dev lo parent 1: classid 1:1 drr
refuse "a class of drr" tc -n a qdisc add dev lo parent 1:1 onramp
check "drr goes" tc -n a qdisc del dev lo root
refuse "root of a user namespace" unshare -r -n tc qdisc add dev lo root onramp

# Room for one flow: the others share another, which is not held, and nothing is dropped.
check "room for one flow" tc -n a qdisc change dev eth0 root onramp flows 1
ip netns exec b iperf3 -s -1 -D >/dev/null
sleep 1
check "four flows" ip netns exec a iperf3 -c 10.0.0.2 -P 4 -n 5M
tc -n a -s qdisc show dev eth0 >/tmp/shared
grep -q "without a flow of their own [1-9]" /tmp/shared || { cat /tmp/shared; fail "they shared no flow"; }
grep -q "dropped for limit 0 bytes 0 flow_limit 0" /tmp/shared || { cat /tmp/shared; fail "packets were lost"; }
say "they shared a flow, and lost nothing"

# One that gets a place while packets of it are in the shared one keeps their order.
ip netns exec b load turns eth0 200 >/tmp/turns 2>&1 &
reader=$!
wait_for "who looks at their order" grep -q ready /tmp/turns
flood() { ip netns exec a load flood eth0 50 2 200 $1 || fail "flood"; }
flood 4
check "room for many" tc -n a qdisc change dev eth0 root onramp flows 65536
flood 1
wait $reader || { cat /tmp/turns; fail "packets of a flow were lost or overtook others"; }
say "200 packets, of flows that get a place in between, keep their order"

left

# CoDel: before a slow device the flows of a host behind this one stand as long as nobody tells them.
ip netns add c
ip link add eth0 netns c type veth peer name eth1 netns a
address c eth0 10.0.2.2/24
address a eth1 10.0.2.1/24
ip -n c route add default via 10.0.2.1
ip -n b route add 10.0.2.0/24 via 10.0.0.1
ip netns exec a sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
check "a slow device" tc -n a qdisc replace dev eth0 root handle 1: tbf rate 20mbit burst 10k limit 10m
codel() { tc -n a -s qdisc show dev eth0 | sed -n "s/.*CoDel.*$1 \([0-9]*\).*/\1/p"; }
# stands TARGET: TCP's mean round trip in us, beside UDP that sends more than the device takes
stands() {
    check "CoDel's target is $1" tc -n a qdisc replace dev eth0 parent 1:1 onramp target $1
    ip netns exec b iperf3 -s -1 -D -p 5202 >/dev/null
    ip netns exec b iperf3 -s -1 -D >/dev/null
    sleep 1
    ip netns exec c iperf3 -u -b 30M -t 12 -p 5202 -c 10.0.0.2 >/tmp/udp 2>&1 &
    udp=$!
    ip netns exec c iperf3 -J -t 10 -c 10.0.0.2 >/tmp/iperf 2>&1 || { cat /tmp/iperf; fail "iperf3"; }
    wait $udp || { cat /tmp/udp; fail "iperf3 -u"; }
    rtt=$(sed -n 's/.*"mean_rtt":[[:space:]]*\([0-9]*\).*/\1/p' /tmp/iperf | tail -n 1)
    say "target $1: TCP's mean round trip is $rtt us; CoDel dropped $(codel dropped)"
}
stands 0ms
[ "$(codel dropped)" = 0 ] || fail "CoDel drops without a target"
without=$rtt
stands 5ms
[ "$(codel dropped)" -gt 10 ] || fail "CoDel dropped $(codel dropped)"
[ $((3 * rtt)) -lt $without ] || fail "with CoDel $rtt us, without $without"
check "the slow device goes" tc -n a qdisc del dev eth0 root
check "the module unloads" rmmod sch_onramp
complain
finish 0
