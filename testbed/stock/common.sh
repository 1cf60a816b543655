# Sourced by what runs as init of a stock kernel; see boot.
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
    for log in /tmp/*.log; do echo "--- $log"; cat "$log"; done
    finish 1
}
check() {
    what=$1
    shift
    "$@" >/tmp/out 2>&1 || { cat /tmp/out; fail "$what"; }
    say "$what: ok"
}
# wait_for WHAT COMMAND…: until it succeeds, within three minutes, or as long as as many looks take
wait_for() {
    what=$1
    shift
    for i in $(seq 900); do
        "$@" >/tmp/out 2>&1 && { say "$what: ok"; return; }
        sleep 0.2
    done
    cat /tmp/out
    fail "$what: never"
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

# Unless systemd has.
[ -e /proc/self ] || {
    mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t devtmpfs dev /dev
    mount -t tmpfs run /run
    mount -t bpf bpf /sys/fs/bpf
}
say "Linux $(uname -r)"
ip link set lo up
echo 000102030405060708090a0b0c0d0e0f >/tmp/key
chmod 600 /tmp/key

# The kernel's modules, those they need first; what is missing is built in, or will be missed.
modules() {
    for module in "$@"; do
        [ ! -e /modules/$module.ko ] || check "module $module" insmod /modules/$module.ko
    done
}

# hosts: a and b, network namespaces with 10.0.0.1 and 10.0.0.2 on their eth0
hosts() {
    for host in a b; do
        ip netns add $host
        ip -n $host link set lo up
    done
    link
}
link() {
    ip link add eth0 netns a address 02:00:00:00:00:01 type veth peer name eth0 netns b address 02:00:00:00:00:02
    address a eth0 10.0.0.1/24
    address b eth0 10.0.0.2/24
}
# address HOST DEVICE ADDRESS: there, and up
address() {
    ip -n $1 addr add $3 dev $2
    ip -n $1 link set $2 up
}

# withcgroups COMMAND…: beside the host's cgroups, which `ip netns exec` hides
cat >/bin/withcgroups <<'EOF'
#!/bin/sh
mount -t cgroup2 cgroup /sys/fs/cgroup
exec "$@"
EOF
chmod +x /bin/withcgroups
# start HOST MODE INTERFACE[", "INTERFACE]… OFFSET PEER…: the agent, with the kind of gate in $gate and more keys in $keys;
# peers' clocks that are behind make delays look long
start() {
    host=$1
    cat >/tmp/$host.toml <<EOF
mode = "$2"
interfaces = ["$3"]
threshold = "500us"
max_pause = "2ms"
key_file = "/tmp/key"
clock = "static"
clock_uncertainty = "1s"
max_share = 1
socket = "/tmp/$host.sock"
state_dir = "/run/onrampd-$host"
$keys
EOF
    [ -z "$gate" ] || printf '[gate]\nkind = "%s"\n' "$gate" >>/tmp/$host.toml
    offset=$4
    shift 4
    for peer in "$@"; do
        printf '[[peer]]\naddress = "%s"\nclock_offset = "%s"\n' $peer $offset >>/tmp/$host.toml
    done
    ip netns exec $host withcgroups onrampd run --config /tmp/$host.toml >/tmp/$host.log 2>&1 &
    eval "pid_$host=$!"
    wait_for "the agent on $host is ready" grep -q '^ready' /tmp/$host.log
}
# configured MODE: the same for the agent as systemd runs it, on a, by the kind of gate that it chooses
configured() {
    cat >/etc/onrampd/onrampd.toml <<EOF
interface = "eth0"
mode = "$1"
threshold = "500us"
max_pause = "2ms"
key_file = "onrampd.key"
clock = "static"
clock_uncertainty = "1s"
max_share = 1
[[peer]]
address = "10.0.0.2"
clock_offset = "-100ms"
EOF
    cp /tmp/key /etc/onrampd/onrampd.key
    chown root:onrampd /etc/onrampd/onrampd.key
    chmod 640 /etc/onrampd/onrampd.key
}
stop() {
    eval "kill \$pid_$1 && wait \$pid_$1"
}

# send WHAT [FROM TO ADDRESS BYTES]
send() {
    ip netns exec ${3:-b} iperf3 -s -1 -D >/dev/null
    sleep 1
    ip netns exec ${2:-a} iperf3 -c ${4:-10.0.0.2} -n ${5:-20M} >/tmp/iperf 2>&1 || { cat /tmp/iperf; fail "iperf3 $1"; }
    say "iperf3 $1: $(sed -n 's/.* \([0-9.]* [GMK]bits\/sec\).*receiver/\1/p' /tmp/iperf)"
}

# acked WHAT LEAST: so many OR-ACKs have come back to a
acked() {
    acks=$(onrampctl status --json --socket /tmp/a.sock | number or_acks_received)
    [ "${acks:-0}" -ge $2 ] || { onrampctl status --socket /tmp/a.sock; fail "$1: only ${acks:-no} OR-ACKs came back"; }
    say "$1: $acks OR-ACKs"
}
# counts_tcp [SOCKET]: what TCP does on a is counted, all of it or all but timeouts
counts_tcp() {
    socket=$1
    effects() { onrampctl status --json ${socket:+--socket $socket} | tee /tmp/effects; }
    looked() { effects | grep -Eq '"tcp":"(all|without-timeouts)"'; }
    wait_for "TCP is looked at" looked
    send "that is counted"
    counted() { [ "$(effects | number acked_bytes)" -ge 1000000 ]; }
    wait_for "TCP is counted" counted
    # Longer ones are seen before their end.
    ip netns exec b iperf3 -s -1 -D >/dev/null
    sleep 1
    ip netns exec a iperf3 -c 10.0.0.2 -t 9 -b 20M >/tmp/iperf 2>&1 &
    long=$!
    sleep 3
    before=$(effects | number acked_bytes)
    sleep 3
    [ "$(effects | number acked_bytes)" -ge $((before + 1000000)) ] || fail "of a connection that goes on: $(cat /tmp/effects)"
    wait $long || { cat /tmp/iperf; fail "iperf3 -t 9"; }
    say "TCP's counters: $(sed -n 's/.*"tcp":"\([a-z-]*\)".*/\1/p' /tmp/effects)"
}
# held DEVICE: the gate of a there has held packets
held() {
    held=$(tc -n a -s qdisc show dev $1 | sed -n 's/.*held \([0-9]*\) for.*/\1/p' | head -n 1)
    [ "${held:-0}" -gt 10 ] || { tc -n a -s qdisc show dev $1; fail "$1: held ${held:-no} times"; }
    say "$1: held $held times, and let go"
}

# rules RULE…: in force on a from now on, a reload later
rules() {
    sed -i '/^\[\[scope/,$d' /tmp/a.toml
    [ $# = 0 ] || printf '[[scope]]\n%b\n' "$@" >>/tmp/a.toml
    reloaded=$(grep -c 'onrampd: reloaded' /tmp/a.log)
    kill -HUP $pid_a
    for i in $(seq 300); do
        [ "$(grep -c 'onrampd: reloaded' /tmp/a.log)" = $reloaded ] || return 0
        sleep 0.1
    done
    fail "rules: never reloaded"
}
# rule NAME KEY: a number of the status
rule() {
    onrampctl status --json --socket /tmp/a.sock | grep -o "{\"name\":\"$1\"[^}]*}" | sed -n "s/.*\"$2\":\([a-z0-9]*\).*/\1/p"
}
# stream PORT [COMMAND…]: data to a port of b, by a command
stream() {
    port=$1
    shift
    ip netns exec b iperf3 -s -1 -D -p $port >/dev/null
    sleep 1
    "$@" ip netns exec a iperf3 -c 10.0.0.2 -n 10M -p $port >/tmp/iperf 2>&1 || { cat /tmp/iperf; fail "iperf3 to port $port"; }
}
# scoped HELD: rules are obeyed by the gate of a, where delays look long; the command HELD prints how often it has held
scoped() {
    mount -t cgroup2 cgroup /sys/fs/cgroup
    printf '#!/bin/sh\necho 0 >/sys/fs/cgroup/batch/backup/cgroup.procs\nexec "$@"\n' >/bin/backup
    chmod +x /bin/backup
    rules 'name = "bulk"\nhold = false\nport = 5300' 'name = "batch"\nhold = false\ncgroup = "/batch"'
    is() { [ "$(rule batch absent)" = $1 ]; }
    wait_for "there is no such cgroup" is true
    mkdir -p /sys/fs/cgroup/batch/backup
    wait_for "now there is" is false
    before=$($1)
    stream 5300
    stream 5301 backup
    after=$($1)
    [ $after = $before ] || fail "held $((after - before)) times what rules let go"
    for name in bulk batch; do
        [ "$(rule $name bytes)" -ge 10000000 ] && [ "$(rule $name paused)" -gt 10 ] || { onrampctl scope --socket /tmp/a.sock; fail "rule $name"; }
    done
    say "let go by port: $(rule bulk paused) packets in a pause; by cgroup: $(rule batch paused)"
    stream 5301
    [ $($1) -gt $((after + 10)) ] && [ "$(rule none paused)" -gt 10 ] || { onrampctl scope --socket /tmp/a.sock; fail "held $(($($1) - after)) times what no rule matches"; }
    say "held meanwhile: $(($($1) - after)) times what no rule matches"

    # Only what is named; and rules that change while packets wait, of which none overtakes another.
    rules 'name = "web"\nhold = true\nport = 5301' 'hold = false'
    after=$($1)
    stream 5302
    [ $($1) = $after ] || fail "held $(($($1) - after)) times what is not named"
    stream 5301
    [ $($1) -gt $((after + 10)) ] || fail "what is named is not held"
    say "only what is named is held: $(($($1) - after)) times"
    ip netns exec b load turns eth0 6000 >/tmp/turns 2>&1 &
    reader=$!
    wait_for "who looks at their order" grep -q ready /tmp/turns
    rules
    waited=$($1)
    for i in 1 2 3; do
        ip netns exec a load flood eth0 20 50 200 0 || fail "flood"
        rules 'hold = false'
        ip netns exec a load flood eth0 20 50 200 0 || fail "flood"
        rules
    done
    wait $reader || { cat /tmp/turns; fail "packets overtook others while rules changed"; }
    say "6000 packets keep their order while rules come and go; held $(($($1) - waited)) times"
}

# both_ways: data from a to b and back on one connection, and nothing is missing. Each end reads and writes
# at once, or both could wait for room to write.
both_ways() {
    cat >/tmp/both <<'EOF'
#!/bin/sh
dd if=/dev/zero bs=64k count=300 2>/dev/null &
got=$(head -c 19660800 | wc -c)
wait
[ $got = 19660800 ]
EOF
    chmod +x /tmp/both
    ip netns exec b nc -l -p 7000 -e /tmp/both &
    other=$!
    sleep 1
    check "data both ways" ip netns exec a nc 10.0.0.2 7000 -e /tmp/both
    check "and at its other end" wait $other
}
# What the gate on eth0 of a does while something happens to its agent; status is the agent's.
qdisc() { tc -n a -s qdisc show dev eth0; }
# The kind and the handle, which no other gate has.
which_gate() { qdisc | sed -n '1s/ root.*//p'; }
# Data from a to b until there is enough, a MiB at a time.
begin() {
    rm -f /tmp/enough
    cat >/tmp/transfer <<'EOF'
#!/bin/sh
sent=0
until [ -e /tmp/enough ]; do
    dd if=/dev/zero bs=64k count=16 2>/dev/null
    sent=$((sent + 1048576))
done
echo $sent >/tmp/sent
EOF
    chmod +x /tmp/transfer
    ip netns exec b nc -l -p 7000 </dev/null | wc -c >/tmp/got &
    receiver=$!
    sleep 1
    ip netns exec a nc 10.0.0.2 7000 -e /tmp/transfer &
    sender=$!
}
# arrives WHAT: all of it
arrives() {
    touch /tmp/enough
    check "$1" wait $sender
    check "its other end" wait $receiver
    [ "$(cat /tmp/sent)" = "$(cat /tmp/got)" ] || fail "$(cat /tmp/got) of $(cat /tmp/sent) bytes arrived"
}
# holds MORE: the gate has held so many times more than it had
holds() {
    before=$(status | number held)
    more() { [ $(($(status | number held) - before)) -ge $1 ]; }
    wait_for "the gate holds" more $1
}
# the_same WHAT: the gate, and nothing lost
the_same() {
    [ "$(which_gate)" = "$was" ] || fail "$1: another gate: $(qdisc)"
    qdisc | grep -q 'dropped 0,' || { qdisc; fail "$1: packets were lost"; }
    say "$1: the same gate, no packet lost"
}
# Switching off: see agent/off.rs.
off() { ip netns exec a onrampd off --state-dir /run/onrampd-a; }
on() { ip netns exec a onrampd on --state-dir /run/onrampd-a; }
says_off() { onrampctl status --json --socket /tmp/a.sock | grep -q 'nothing is held: .onrampd off'; }
not() { ! "$@"; }
# left: nothing may be
left() {
    stop a
    stop b
    for host in a b; do
        check "nothing is left on $host" sh -c "! tc -n $host qdisc show | grep -q onramp && ! ip -n $host link show onramp0"
    done
}
complain() {
    dmesg | grep -E 'BUG:|WARNING:|Oops|detected stall|Objects remaining' && fail "the kernel complained"
}
