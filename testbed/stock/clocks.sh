#!/bin/dash
# How far apart the clocks of two hosts are, a and b, which are one: by the module's stamps and by the
# program's, alone and beside a transfer.
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf sch_onramp
hosts

# fleet HOST: its agent, with the kind of gate in $gate
fleet() {
    sed -i 's/^mode = .*/mode = "enforce"/' /tmp/$1/onrampd.toml
    printf 'socket = "/tmp/%s.sock"\nstate_dir = "/run/%s"\n' $1 $1 | cat - /tmp/$1/onrampd.toml >/tmp/toml
    printf '[gate]\nkind = "%s"\n' $gate | cat /tmp/toml - >/tmp/$1/onrampd.toml
    ip netns exec $1 onrampd run --config /tmp/$1/onrampd.toml >/tmp/$1.log 2>&1 &
    eval "pid_$1=$!"
    wait_for "the agent on $1 is ready" grep -q '^ready' /tmp/$1.log
}
# fleet_ns HOST: the fleet's time less this kernel's, by that host
fleet_ns() { onrampctl status --json --socket /tmp/$1.sock | sed -n 's/.*"fleet_ns":\(-*[0-9]*\).*/\1/p'; }
known() { [ "$(fleet_ns a)" ] && [ "$(fleet_ns b)" ]; }
# apart WHAT: in a hundred looks, one in each of twenty rounds five times over
apart() {
    for i in $(seq 100); do
        echo "$(fleet_ns a) $(fleet_ns b)"
        sleep 0.4
    done | awk 'NF == 2 { d = $1 - $2; print d < 0 ? -d : d }' | sort -n >/tmp/apart
    say "clocks, $1: median $(sed -n "$((($(wc -l </tmp/apart) + 1) / 2))p" /tmp/apart) ns, worst $(tail -n 1 /tmp/apart) ns of $(wc -l </tmp/apart)"
}

for gate in module bpf; do
    mkdir /tmp/a /tmp/b
    check "init" ip netns exec a onrampctl init --in-agent --interface eth0 --address 10.0.0.1 --config /tmp/a/onrampd.toml
    fleet a
    token=$(ip netns exec a onrampctl token create --config /tmp/a/onrampd.toml)
    check "join" ip netns exec b onrampctl join $token --interface eth0 --config /tmp/b/onrampd.toml
    fleet b
    wait_for "clocks are known" known
    sleep 10
    apart "$gate, alone"
    ip netns exec b iperf3 -s -1 -D >/dev/null
    sleep 1
    ip netns exec a iperf3 -c 10.0.0.2 -t 55 >/tmp/iperf 2>&1 &
    load=$!
    sleep 5
    apart "$gate, beside a transfer"
    check "the transfer" wait $load
    onrampctl status --socket /tmp/a.sock
    left
    rm -r /tmp/a /tmp/b
done
complain
finish 0
