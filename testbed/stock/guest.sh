#!/bin/dash
# Runs as init of a stock kernel; see boot. Two hosts, a and b, with the agent in each.
export PATH=/bin HOME=/root TC_LIB_DIR=/lib
say() { echo "GUEST: $*"; }
finish() {
    [ "$1" = 0 ] && say "all held"
    sync
    poweroff -f
}
fail() {
    say "FAILED: $*"
    dmesg | tail -n 30
    for host in a b; do echo "--- $host"; cat /tmp/$host.log; done
    finish 1
}
check() {
    what=$1
    shift
    "$@" >/tmp/out 2>&1 || { cat /tmp/out; fail "$what"; }
    say "$what: ok"
}
# refuse WHAT COMMAND…: which must fail
refuse() {
    what=$1
    shift
    "$@" >/tmp/out 2>&1 && fail "$what was taken"
    say "$what: refused"
}
# The number after "key": in a JSON text on standard input.
number() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" | head -n 1; }

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
say "Linux $(uname -r)"
ip link set lo up
for module in veth dummy sch_ingress cls_bpf sch_drr sch_onramp; do
    check "module $module" insmod /modules/$module.ko
done

ip netns add a
ip netns add b
ip link add eth0 netns a address 02:00:00:00:00:01 type veth peer name eth0 netns b address 02:00:00:00:00:02
for host in a b; do
    n=$([ $host = a ] && echo 1 || echo 2)
    ip -n $host addr add 10.0.0.$n/24 dev eth0
    ip -n $host link set lo up
    ip -n $host link set eth0 up
done
echo 000102030405060708090a0b0c0d0e0f >/tmp/key
chmod 600 /tmp/key

# start HOST MODE OFFSET: the agent; a peer's clock that is behind makes delays look long
start() {
    peer=$([ $1 = a ] && echo 10.0.0.2 || echo 10.0.0.1)
    cat >/tmp/$1.toml <<EOF
mode = "$2"
interface = "eth0"
threshold = "500us"
max_pause = "2ms"
key_file = "/tmp/key"
clock = "static"
socket = "/tmp/$1.sock"
state_dir = "/run/onrampd-$1"
[[peer]]
address = "$peer"
clock_offset = "$3"
EOF
    ip netns exec $1 onrampd run --config /tmp/$1.toml >/tmp/$1.log 2>&1 &
    eval "pid_$1=$!"
    for i in $(seq 100); do
        grep -q '^ready' /tmp/$1.log && return
        sleep 0.2
    done
    fail "the agent on $1 did not get ready"
}
stop() {
    eval "kill \$pid_$1 && wait \$pid_$1"
}
send() {
    ip netns exec b iperf3 -s -1 -D >/dev/null
    sleep 1
    ip netns exec a iperf3 -c 10.0.0.2 -n 20M >/tmp/iperf 2>&1 || { cat /tmp/iperf; fail "iperf3 $1"; }
    say "iperf3 $1: $(sed -n 's/.* \([0-9.]* [GMK]bits\/sec\).*receiver/\1/p' /tmp/iperf)"
}

start a enforce 0ns
start b enforce 0ns
say "verifier and JIT: ok (jit $(cat /proc/sys/net/core/bpf_jit_enable))"
check "the gate is in place" sh -c "tc -n a -s qdisc show dev eth0 | grep -q 'qdisc onramp.*program onramp_gate'"
send "through the gate"
onrampd status --json --socket /tmp/a.sock >/tmp/status || fail "status"
acks=$(number or_acks_received </tmp/status)
[ "${acks:-0}" -gt 50 ] || { cat /tmp/status; fail "only ${acks:-no} OR-ACKs came back"; }
say "OR-ACKs: $acks"
stop a
start a enforce -100ms
send "with delays that look long"
tc -n a -s qdisc show dev eth0
held=$(tc -n a -s qdisc show dev eth0 | sed -n 's/.*held \([0-9]*\) for.*/\1/p' | head -n 1)
[ "${held:-0}" -gt 10 ] || fail "held ${held:-no} times"
say "held $held times, and let go"

# Data both ways on one connection: a's ACKs do not wait behind its own data, which is held.
ip netns exec b sh -c 'dd if=/dev/zero bs=64k count=100 2>/dev/null | nc -l -p 7000 >/dev/null' &
sleep 1
ip netns exec a sh -c 'dd if=/dev/zero bs=64k count=100 2>/dev/null | nc 10.0.0.2 7000 >/dev/null'
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
for i in $(seq 100); do
    [ "$(grep -c '^ready' /tmp/a.log)" = 2 ] && break
    sleep 0.2
done
[ "$(grep -c '^ready' /tmp/a.log)" = 2 ] || fail "the new agent did not get ready"
check "traffic goes on during an upgrade" wait $load
[ "$(gate | head -n 1 | cut -d' ' -f 1-5)" = "$(echo "$before" | cut -d' ' -f 1-5)" ] || fail "another gate: $(gate)"
gate | grep -q 'dropped 0,' || { gate; fail "packets were lost"; }
onrampd status --json --socket /tmp/a.sock | grep -q '"problems": *\[\]' || fail "$(onrampd status --socket /tmp/a.sock)"
say "upgrade: the same gate, no packet lost"

# Somebody takes the gate's place: it is said, and put back.
tc -n a qdisc replace dev eth0 root pfifo
for i in $(seq 50); do
    gate | grep -q 'qdisc onramp' && break
    sleep 0.1
done
check "a gate that was replaced is put back" sh -c "tc -n a qdisc show dev eth0 | grep -q 'qdisc onramp'"
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

stop a
stop b
check "nothing is left on a" sh -c "! tc -n a qdisc show dev eth0 | grep -q onramp && ! ip -n a link show onramp0"
check "nothing is left on b" sh -c "! tc -n b qdisc show dev eth0 | grep -q onramp && ! ip -n b link show onramp0"
check "the module unloads" rmmod sch_onramp
dmesg | grep -E 'BUG:|WARNING:|Oops|stall|Objects remaining' && fail "the kernel complained"
finish 0
