#!/bin/dash
# The gate's program when its agent goes and another comes, while packets pass and are held: killed,
# upgraded, upgraded to one with another program.
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf
hosts
gate=bpf
start b enforce eth0 0ns 10.0.0.1
start a enforce eth0 -100ms 10.0.0.2

status() { onrampctl status --json --socket /tmp/a.sock; }

was=$(which_gate)
begin
holds 20
sent=$(status | number sent)
kill -9 $pid_a
sleep 0.2
start a enforce eth0 -100ms 10.0.0.2
holds 20
arrives "a transfer during a crash"
the_same "killed"
[ "$(status | number sent)" -gt $sent ] || fail "counters began anew"
status | grep -q '"problems":\[\]' || fail "$(status)"

begin
holds 20
kill -USR2 $pid_a
wait_for "the new agent is ready" sh -c '[ "$(grep -c ^ready /tmp/a.log)" = 2 ]'
holds 20
arrives "a transfer during an upgrade"
the_same "upgraded"
status | grep -q '"problems":\[\]' || fail "$(status)"

# Somebody takes the gate's place: the new one is of the present agent's kind.
tc -n a qdisc replace dev eth0 root pfifo
put_back() { which_gate | grep -q 'qdisc onramp_' && [ "$(which_gate)" != "$was" ]; }
wait_for "a gate that was taken over, then replaced, is put back" put_back

# Of another program: it takes the old one's place, which lets go.
was=$(which_gate)
begin
# Room for what comes while the agent loads its programs, or the receiver loses it.
echo 8388608 | tee /proc/sys/net/core/rmem_max >/proc/sys/net/core/wmem_max
ip netns exec b iperf3 -s -1 -D -p 5202 >/dev/null
sleep 1
ip netns exec a iperf3 -u -c 10.0.0.2 -p 5202 -b 10M -l 1000 -t 20 -w 4M >/tmp/datagrams 2>&1 &
datagrams=$!
holds 20
mv /bin/onrampd-next /bin/onrampd
kill -USR2 $pid_a
wait_for "the next agent is ready" sh -c '[ "$(grep -c ^ready /tmp/a.log)" = 3 ]'
wait_for "another gate" put_back
holds 20
arrives "a transfer during an upgrade to another program"
check "datagrams" wait $datagrams
# What is sent in the very moment of the change, the kernel drops; the moment lasts longer on a machine with other work.
lost=$(sed -n 's|.* \([0-9]*\)/[0-9]* .*receiver|\1|p' /tmp/datagrams)
[ "$lost" -lt 500 ] || fail "$(cat /tmp/datagrams)"
say "datagrams that were lost meanwhile: $lost of $(sed -n 's|.*/\([0-9]*\) .*receiver|\1|p' /tmp/datagrams)"

# Not so where the maps cannot be taken over.
kill -9 $pid_a
keys='max_flows = 1000'
start a enforce eth0 -100ms 10.0.0.2
check "with other maps, too, there is a gate" sh -c "tc -n a qdisc show dev eth0 | grep -q 'qdisc onramp_'"
send "through it"

# Nor where they have no room for so many gates; and an interface that is not named any more is left as it was.
ip link add m0 netns a numtxqueues 8 numrxqueues 8 type veth peer name m0 netns b numtxqueues 8 numrxqueues 8
address a m0 10.0.1.1/24
address b m0 10.0.1.2/24
check "mq" tc -n a qdisc add dev m0 root handle 9: mq
gates_of() { tc -n a qdisc show dev $1 | grep -c 'qdisc onramp_'; }
kill -9 $pid_a
start a enforce 'eth0", "m0' -100ms 10.0.0.2 10.0.1.2
check "with more interfaces there are more gates" [ $(gates_of eth0)$(gates_of m0) = 18 ]
send "through one of them" a b 10.0.1.2
kill -9 $pid_a
was=$(which_gate)
start a enforce eth0 -100ms 10.0.0.2
check "with fewer there are fewer" [ $(gates_of m0) = 0 ]
the_same "with fewer interfaces"
left
complain
finish 0
