#!/bin/dash
# The gate without a module: an eBPF program as the queueing discipline of two hosts, a and b.
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf failover net_failover virtio_net
hosts
gate=bpf

# gates KEY: a number of the gates of a, together
gates() {
    onrampctl status --json --socket /tmp/a.sock | grep -o '"gates":\[[^]]*\]' | grep -o "\"$1\":[0-9]*" |
        awk -F: '{ n += $2 } END { print n + 0 }'
}
# there DEVICE GATES: of a
there() { [ "$(tc -n a qdisc show dev $1 | grep -c 'qdisc onramp_')" = $2 ]; }

start a enforce eth0 0ns 10.0.0.2
start b enforce eth0 0ns 10.0.0.1
check "the gate is in place" there eth0 1
say "instructions the verifier followed: $(cat /proc/$pid_a/fdinfo/* 2>/dev/null |
    awk '$1 == "prog_type:" { ours = $2 == 27 } $1 == "prog_id:" { id = $2 } ours && $1 == "verified_insns:" { n[id] = $2 }
        END { for (id in n) if (n[id] > most) most = n[id]; print most " for the longest" }')"
# It cuts no segments: they are made small instead, for as long as the agent is there.
segments() { ip -n a -d link show eth0 | grep -q "gso_max_size $1"; }
check "segments are small" segments 16384
send "through the gate"
acked "delays" 50
stop a
check "segments are large again" segments 65536
foretold() { ip netns exec a onrampctl doctor --config /tmp/a.toml | grep -q "up to 16384 bytes (.* 65536 without it"; }
check "the doctor foretells small ones" foretold
keys='cut = false'
start a enforce eth0 -100ms 10.0.0.2
keys=
check "or stay so" segments 65536
send "with delays that look long"
[ "$(gates held)" -gt 10 ] || fail "held $(gates held) times"
say "held $(gates held) times, and let go"

# Rules say what is held.
held_times() { gates held; }
scoped held_times

sed -i /^cut/d /tmp/a.toml
kill -HUP $pid_a
wait_for "segments are small after a reload" segments 16384

# Switched off, and on again; an agent that starts meanwhile does not hold either.
check "onrampd off" off
wait_for "the agent says so" says_off
wait_for "and takes its gate away" there eth0 0
check "onrampd on" on
wait_for "the gate is back" there eth0 1
send "with delays that look long, again"
was=$(gates held)
[ $was -gt 10 ] || fail "held $was times"

# Five seconds after an agent was killed, and nobody has come for it, its gate holds nothing: the next agent finds its counts.
kill -9 $pid_a
sleep 5
send "without an agent"
start a enforce eth0 -100ms 10.0.0.2
[ $(gates held) = $was ] || fail "held $was times before, $(gates held) after"
kill -9 $pid_a
told() { off | grep -q ' 0 interfaces and 1 programs'; }
check "onrampd off without an agent" told
start a enforce eth0 -100ms 10.0.0.2
check "the next agent says so" says_off
check "and has no gate" there eth0 0
check "onrampd on" on
wait_for "the gate is back, once more" there eth0 1

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
check "segments are given back" ip netns exec a onrampd undo --segments --state-dir $(sed -n 's/^state_dir = "\(.*\)"/\1/p' /tmp/a.toml)
check "they are large after a crash" segments 65536
check "the gate still stays" there eth0 1
start a enforce eth0 0ns 10.0.0.2
check "the next agent has a gate" there eth0 1
check "and small segments" segments 16384
send "through the next agent's gate"

# Packets that are to leave later wait in the gate.
stop a
reloads=0
start a enforce eth0 0ns 10.0.0.2
# limits [LIMIT]: the gate's from now on
limits() {
    sed -i '1,/^kind/!d' /tmp/a.toml
    printf '%s\n[[peer]]\naddress = "10.0.0.2"\n' "$@" >>/tmp/a.toml
    reloads=$((reloads + 1))
    kill -HUP $pid_a
    wait_for "limits${*:+: $*}" sh -c "[ \$(grep -c 'onrampd: reloaded' /tmp/a.log) = $reloads ]"
}
flood() { ip netns exec a load flood eth0 "$@" || fail "flood"; }
empty() { [ "$(gates queued_packets)" = 0 ]; }

# Flows for which there is no place share one.
limits "flows = 5000"
flood 5500 1 200 5
[ "$(gates flows)" = 5000 ] && [ "$(gates no_flow)" -ge 500 ] && [ "$(gates drops)" = 0 ] ||
    fail "5500 flows: $(gates flows), $(gates no_flow) packets had none, $(gates drops) were dropped"
say "5500 flows, with places for 5000: $(gates no_flow) shared one, none was dropped"
wait_for "5500 packets leave" empty

# One that gets a place while packets of it are in the shared one keeps their order.
limits "flows = 1"
ip netns exec b load turns eth0 200 >/tmp/turns 2>&1 &
reader=$!
wait_for "who looks at their order" grep -q ready /tmp/turns
flood 50 2 200 4
limits
flood 50 2 200 1
wait $reader || { cat /tmp/turns; fail "packets of a flow were lost or overtook others"; }
say "200 packets, of flows that get a place in between, keep their order"

# Normally all have one.
# A host says other things, too, now and then.
without=$(gates no_flow)
flood 10000 1 200 9
[ "$(gates throttled_flows)" -ge 10000 ] && [ "$(gates no_flow)" = $without ] && [ "$(gates drops)" = 0 ] ||
    fail "10000 flows: $(gates throttled_flows), $(($(gates no_flow) - without)) packets had none, $(gates drops) were dropped"
say "10000 flows wait with a packet each, none was dropped"
wait_for "10000 packets leave" empty
[ "$(gates packets)" -ge 10000 ] || fail "$(gates packets) packets left"

# A program's room has an end.
limits "flows = 20000"
room() { onrampctl status --json --socket /tmp/a.sock | grep -q 'gate.flows is above what a program has room for.*: it is 16382"'; }
check "it is told that there is no room for 20000 flows" room
limits

# Nor does one that waits for long keep others waiting that came later.
flood 1 1 200 9
# One of its flow, and one of another.
flood 2 1 200 1
others_left() { [ "$(gates queued_packets)" = 2 ]; }
for i in 1 2 3 4 5 6; do sleep 1; others_left && break; done
check "who waits for long keeps no others" others_left
wait_for "and leaves itself" empty

# What a limit costs is counted as its.
# full LIMIT VALUE FLOWS PACKETS
full() {
    before=$(gates drops)
    limits "$1 = $2"
    flood $3 $4 1000 4
    over=$(gates $1_drops)
    all=$(($(gates drops) - before))
    again=$(gates $1_drops)
    # A host says other things, too, which are dropped meanwhile.
    [ 900 -le $over ] && [ $over -le $all ] && [ $all -le $again ] && [ $again -lt 910 ] ||
        fail "over $1: $over, then $again of $all"
    say "$1 = $2: $over of 1000 dropped"
    wait_for "the others leave" empty
}
full limit 100 1000 1
full bytes '"176800B"' 1000 1
full flow_limit 10 10 100

# Two flows take turns, by what a flow may send in one.
# turns BYTES CHANGES: so many, where each flow has ten packets of 1000 bytes
turns() {
    limits "quantum = \"$1B\""
    ip netns exec b load turns eth0 20 >/tmp/turns &
    reader=$!
    wait_for "who counts turns" grep -q ready /tmp/turns
    flood 2 10 1000 2
    wait $reader && grep -q "^turns $2$" /tmp/turns || { cat /tmp/turns; fail "turns of $1 bytes"; }
    say "quantum = $1: the turn is another flow's $2 times"
}
turns 1000 19
turns 5000 3
turns 10000 1
limits
send "after all that"

# The interface goes, and packets wait in its gate; another of its name is taken up.
memory() { awk '$1 == "skbuff_head_cache" { print $2 }' /proc/slabinfo; }
freed() { [ $(memory) -lt 3000 ]; }
fill() {
    flood 5000 1 200 9
    [ $(memory) -gt 4500 ] || fail "5000 packets take $(memory)"
}
fill
check "a device that is deleted" ip -n a link del eth0
wait_for "lets go of its packets" freed
link
wait_for "the next one is taken up" there eth0 1
wait_for "on b" sh -c "tc -n b qdisc show dev eth0 | grep -q 'qdisc onramp_'"
send "through the next one"
stop a

# A gate for each queue.
ip link add m0 netns a numtxqueues 4 numrxqueues 4 type veth peer name m0 netns b numtxqueues 4 numrxqueues 4
address a m0 10.0.1.1/24
address b m0 10.0.1.2/24
check "mq" tc -n a qdisc add dev m0 root handle 9: mq
start a enforce m0 0ns 10.0.1.2
check "a gate for each queue" there m0 4
send "through a gate for each queue" a b 10.0.1.2
check "a queue's gate that is taken away" tc -n a qdisc replace dev m0 parent 9:2 pfifo
wait_for "is put back" there m0 4

# Whose number changes, under a transfer: a queue that goes keeps its gate.
stop a
queues() { ip netns exec a ethtool -L m0 tx $1 || fail "ethtool -L m0 tx $1"; }
queues 1
tc -n a qdisc replace dev m0 root handle 8: mq
start a enforce m0 0ns 10.0.1.2
check "a gate for the only queue" there m0 1
ip netns exec b iperf3 -s -1 -D >/dev/null
sleep 1
ip netns exec a iperf3 -c 10.0.1.2 -P 4 -t 8 >/tmp/iperf 2>&1 &
load=$!
gates=1
for queues in 3 2 4 1 4; do
    sleep 1
    queues $queues
    [ $gates -ge $queues ] || gates=$queues
    wait_for "with $queues queues, $gates gates" there m0 $gates
done
check "traffic goes on while queues come and go" wait $load
send "through what there is then" a b 10.0.1.2

# Of 128 queues, in each of which packets wait, the gates go together: one after the other they would take 128 times 50 ms.
stop a
ip link add m1 netns a numtxqueues 128 numrxqueues 128 type veth peer name m1 netns b numtxqueues 128 numrxqueues 128
address a m1 10.0.3.1/24
address b m1 10.0.3.2/24
check "mq of 128 queues" tc -n a qdisc add dev m1 root handle 7: mq
start a enforce m1 0ns 10.0.3.2
check "128 gates" there m1 128
ip netns exec a load flood m1 2000 1 200 9 || fail "flood"
[ "$(gates queued_packets)" -ge 1900 ] || fail "$(gates queued_packets) packets wait"
hundredths() { cut -d ' ' -f 1 /proc/uptime | tr -d .; }
before=$(hundredths)
stop a
took=$((($(hundredths) - before) * 10))
[ $took -lt 6400 ] || fail "128 gates took $took ms to go"
say "128 gates went in $took ms"

# CoDel: a card whose wire takes 2.5 MB/s is given 6 MB of one flow at once.
card=$(for card in /sys/class/net/*; do [ ! -e $card/device ] || echo ${card##*/}; done)
check "a slow card" ip link set $card netns a name slow
address a slow 10.0.4.1/24
check "a fq_codel there" tc -n a qdisc replace dev slow root fq_codel target 7ms
reloads=0
start a enforce slow 0ns 10.0.4.2
check "its target is taken over, which is told" grep -q \
    'in place of fq_codel: flows take turns, CoDel with a target of 7.00 ms, without ECN marks' /tmp/a.log
# stands [TARGET]: packets that CoDel drops
stands() {
    limits "flow_limit = 10000${1:+
target = \"$1\"}"
    before=$(gates codel_drops)
    left=$(gates packets)
    ip netns exec a load flood slow 1 5000 1200 0 || fail "flood"
    wait_for "the card takes them" empty
    codel=$(($(gates codel_drops) - before))
    left=$(($(gates packets) - left))
    [ $((left + codel)) -ge 5000 ] && [ "$(gates flow_limit_drops)" = 0 ] || fail "of 5000 packets $left left, $codel were dropped"
    say "target ${1:-of before}: of 5000 packets, CoDel dropped $codel"
}
stands 0ns
[ $codel = 0 ] || fail "CoDel drops without a target"
stands
[ $codel -gt 20 ] || fail "CoDel dropped $codel packets"
stop a
check "the fq_codel is back" sh -c "tc -n a qdisc show dev slow | grep -q 'fq_codel.*target [67]'"
start a enforce eth0 0ns 10.0.0.2

left

# A network namespace goes, and packets wait in its gate.
start a enforce eth0 0ns 10.0.0.2
fill
kill -9 $pid_a
check "a namespace that is deleted" ip netns del a
gone() { freed && ! ip -n b link show eth0; }
wait_for "lets go of its packets" gone
complain
finish 0
