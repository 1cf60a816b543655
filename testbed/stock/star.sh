# Sourced after common.sh: a star of nine hosts, of which r asks the others, and their agents. Only the switch's queue to
# r is slower than all else; it overflows when all answer at once.
modules veth dummy sch_ingress cls_bpf sch_tbf llc stp bridge sch_onramp
hosts="h1 h2 h3 h4 h5 h6 h7 h8"
rate=40000000

ip netns add s
ip -n s link add switch type bridge
ip -n s link set switch up
number=0
for host in r $hosts; do
    ip netns add $host
    ip -n $host link set lo up
    ip link add eth0 netns $host type veth peer name $host netns s
    ip -n s link set $host master switch
    ip -n s link set $host up
    address $host eth0 10.0.0.$((number += 1))/24
    # Segments are cut behind the gate, as a card does.
    ip netns exec $host ethtool -K eth0 tso off gso off
    # Which at this rate would be long.
    ip -n $host link set eth0 gso_max_size 8192
    [ $host = r ] || addresses="$addresses 10.0.0.$number"
done
check "the switch's queue" tc -n s qdisc add dev r root tbf rate ${rate}bit burst 16kb limit 100kb

# agent HOST
agent() {
    cat >/tmp/$1.toml <<EOF
mode = "$mode"
interface = "eth0"
threshold = "5ms"
max_pause = "50ms"
key_file = "/tmp/key"
clock = "shared"
max_flows = 1024
max_stamps = 16384
socket = "/tmp/$1.sock"
state_dir = "/run/onrampd-$1"
peers = [$(for peer in 10.0.0.1 $addresses; do printf '"%s", ' $peer; done)]
[gate]
kind = "$gate"
EOF
    ip netns exec $1 onrampd run --config /tmp/$1.toml >/tmp/$1.log 2>&1 &
    agents="$agents $!"
}
ready() { [ "$(cat /tmp/*.log | grep -c '^ready')" = 9 ]; }
total() {
    for host in $hosts; do onrampctl status --json --socket /tmp/$host.sock | number $1; done | awk '{ n += $1 } END { print n }'
}
# agents MODE GATE: on all hosts
agents() {
    mode=$1 gate=$2 agents=
    for host in r $hosts; do agent $host; done
    wait_for "the agents are ready" ready
}
# ask SECONDS: r does, and for longer answers of one of them beside
ask() { ip netns exec r load incast 7000 $seed $1 $rate 4000 0.1 0.75 $addresses; }
for host in $hosts; do ip netns exec $host load serve 7000 & done
