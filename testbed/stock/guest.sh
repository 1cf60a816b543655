#!/bin/dash
# The gate between two hosts, a and b, with the agent in each.
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf sch_drr sch_onramp
hosts
gate=module

start a enforce eth0 0ns 10.0.0.2
start b enforce eth0 0ns 10.0.0.1
say "verifier and JIT: ok (jit $(cat /proc/sys/net/core/bpf_jit_enable))"
check "the gate is in place" sh -c "tc -n a -s qdisc show dev eth0 | grep -q 'qdisc onramp.*program onramp_gate'"
send "through the gate"
acked "delays" 50
stop a
start a enforce eth0 -100ms 10.0.0.2
send "with delays that look long"
held eth0

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
check "the module unloads" rmmod sch_onramp
complain
finish 0
