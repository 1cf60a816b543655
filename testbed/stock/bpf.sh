#!/bin/dash
# The gate without a module: an eBPF program as the queueing discipline of two hosts, a and b.
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf
hosts
gate=bpf
# It cuts no segments.
for host in a b; do check "segments of $host are small" ip -n $host link set eth0 gso_max_size 16384; done

# gates KEY: a number of the gate of a
gates() { onrampd status --json --socket /tmp/a.sock | number $1; }
# there DEVICE GATES: of a
there() { [ "$(tc -n a qdisc show dev $1 | grep -c 'qdisc onramp_')" = $2 ]; }

start a enforce eth0 0ns 10.0.0.2
start b enforce eth0 0ns 10.0.0.1
check "the gate is in place" there eth0 1
send "through the gate"
acked "delays" 50
stop a
start a enforce eth0 -100ms 10.0.0.2
send "with delays that look long"
[ "$(gates held)" -gt 10 ] || fail "held $(gates held) times"
say "held $(gates held) times, and let go"

# Data both ways on one connection: a's ACKs do not wait behind its own data, which is held.
both_ways
[ "$(gates acks_first)" -gt 0 ] || fail "$(gates acks_first) ACKs left before held data"
say "ACKs before held data: $(gates acks_first)"

# Somebody takes the gate's place: it is said, and put back.
tc -n a qdisc replace dev eth0 root pfifo
wait_for "a gate that was replaced is put back" there eth0 1
send "through the gate that was put back"

# An agent that is killed: its gate lets everything go, and the next one takes its place.
ip netns exec b iperf3 -s -1 -D >/dev/null
sleep 1
ip netns exec a iperf3 -c 10.0.0.2 -n 40M >/tmp/iperf 2>&1 &
load=$!
sleep 1
kill -9 $pid_a
check "traffic goes on without an agent" wait $load
check "the gate of an agent that was killed stays" there eth0 1
start a enforce eth0 0ns 10.0.0.2
check "the next agent has a gate" there eth0 1
send "through the next agent's gate"

# A gate for each queue.
stop a
ip link add m0 netns a numtxqueues 4 type veth peer name m0 netns b
address a m0 10.0.1.1/24
address b m0 10.0.1.2/24
check "mq" tc -n a qdisc add dev m0 root handle 9: mq
start a enforce m0 0ns 10.0.1.2
check "a gate for each queue" there m0 4
send "through a gate for each queue" a b 10.0.1.2
check "a queue's gate that is taken away" tc -n a qdisc replace dev m0 parent 9:2 pfifo
wait_for "is put back" there m0 4

left
complain
finish 0
