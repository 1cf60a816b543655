#!/bin/dash
# Whatever may happen to a gate, at once and in an order that $seed gives, for so many $seconds: on four
# processors, while transfers whose contents are checked run all the time. $gate is the gate's kind.
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf sch_fq
[ $gate = bpf ] || modules sch_onramp
say "seed $seed"

# dice NUMBER: $dice becomes one of 0 … NUMBER - 1
dice() {
    seed=$(((seed * 1103515245 + 12345) & 0x7fffffff))
    dice=$((seed / 65536 % $1))
}
pause() {
    dice 10
    sleep 0.$dice
}
# pair: another connection of a and b, whose devices have four queues
pair() {
    ip link add m0 netns a numtxqueues 4 numrxqueues 4 type veth peer name m0 netns b numtxqueues 4 numrxqueues 4
    address a m0 10.0.1.1/24
    address b m0 10.0.1.2/24
    for host in a b; do tc -n $host qdisc add dev m0 root handle 9: mq; done
}
hosts
pair

# configure HOST: anew, with something else in it
configure() {
    dice 4
    [ $dice = 0 ] && mode=observe || mode=enforce
    dice 3
    case $dice in
    0) offset=0ns threshold=500us ;;
    1) offset=-100ms threshold=500us ;;
    2) offset=0ns threshold=50us ;;
    esac
    [ $1 = a ] && peer=2 || peer=1
    cat >/tmp/$1.new <<EOF
mode = "$mode"
interfaces = ["eth0", "m0"]
threshold = "$threshold"
max_pause = "2ms"
key_file = "/tmp/key"
clock = "static"
clock_uncertainty = "1s"
max_share = 1
max_flows = 4096
max_stamps = 16384
socket = "/tmp/$1.sock"
state_dir = "/run/onrampd-$1"
gate.kind = "$gate"
EOF
    for network in 0 1; do
        printf '[[peer]]\naddress = "10.0.%s.%s"\nclock_offset = "%s"\n' $network $peer $offset >>/tmp/$1.new
    done
    mv /tmp/$1.new /tmp/$1.toml
}
# agent HOST: for ever, since it does not start while an interface is gone
agent() {
    until [ -e /tmp/over ]; do
        ip netns exec $1 onrampd run --config /tmp/$1.toml >>/tmp/$1.log 2>&1 &
        echo $! >/tmp/$1.pid
        wait $!
        sleep 0.2
    done
}
ready() { onrampctl status --socket /tmp/$1.sock; }
# Packets wait nowhere.
empty() { ! tc -n $1 -s qdisc show | grep backlog | grep -v 'backlog 0b 0p'; }

# What happens to the agents of a and b.
agents() {
    dice 2
    [ $dice = 0 ] && host=a || host=b
    configure $host
    dice 8
    case $dice in
    0) signal=TERM ;;
    1 | 2) signal=KILL ;;
    3) signal=USR2 ;;
    *) signal=HUP ;;
    esac
    onrampctl status --json --socket /tmp/$host.sock | number held >>/tmp/held
    # It may just be gone.
    kill -$signal $(cat /tmp/$host.pid)
    # What it has left is not always met by the next one.
    [ $signal = HUP ] || { dice 4; sleep $dice; }
    pause
}
# What happens to the gate's place.
places() {
    dice 2
    [ $dice = 0 ] && host=a || host=b
    dice 8
    case $dice in
    0) tc -n $host qdisc replace dev eth0 root pfifo ;;
    1) tc -n $host qdisc replace dev eth0 root fq ;;
    2) tc -n $host qdisc del dev eth0 root ;;
    3) tc -n $host qdisc replace dev m0 parent 9:2 pfifo ;;
    4) tc -n $host qdisc replace dev m0 parent 9:3 fq ;;
    5) tc -n $host qdisc replace dev m0 root handle 9: mq ;;
    *)
        dice 4
        ip netns exec $host ethtool -L m0 tx $((dice + 1))
        ;;
    esac
    pause
}
# What happens to the interfaces.
interfaces() {
    dice 2
    [ $dice = 0 ] && host=a || host=b
    dice 5
    case $dice in
    0)
        ip -n a link del m0
        pause
        pair
        ;;
    1)
        ip -n a link del eth0
        pause
        link
        ;;
    2) for device in eth0 m0; do ip -n $host link set $device down && pause && ip -n $host link set $device up; done ;;
    *)
        ip -n $host link set eth0 down
        pause
        ip -n $host link set eth0 up
        ;;
    esac
    sleep 2
    pause
}
# look: a queue that has packets, and for five seconds sends none, holds them for good
look() {
    for host in a b; do tc -n $host -s qdisc show | sed "s/^qdisc/$host/"; done |
        awk '/^[ab] / { queue = $1 "/" $5 "/" $2 $3 } / Sent / { sent = $2 } / backlog / && $3 + 0 { print queue, sent }' >/tmp/queues
    touch /tmp/looked
    awk 'NR == FNR { times[$1, $2] = $3; next } { print $1, $2, times[$1, $2] + 1 }' /tmp/looked /tmp/queues >/tmp/look
    mv /tmp/look /tmp/looked
    awk '$3 > 5' /tmp/looked >>/tmp/stuck
    sleep 1
}
# often WHAT: till the end
often() {
    seed=$((seed + $2)) count=0
    until [ -e /tmp/end ]; do
        $1 >>/tmp/$1.log 2>&1
        count=$((count + 1))
    done
    say "$1: $count times"
}

for host in a b; do
    ip netns exec $host load serve 7000 &
    configure $host
    agent $host &
    wait_for "the agent on $host is ready" ready $host
done
transfers=
for way in "a 10.0.0.2" "a 10.0.0.2" "b 10.0.0.1" "a 10.0.1.2" "b 10.0.1.1" "b 10.0.1.1"; do
    number=$((number + 1))
    ip netns exec ${way% *} load both ${way#* } 7000 $seconds 3000000 >/tmp/transfer.$number 2>&1 &
    transfers="$transfers $!"
done
disturbers=
for what in agents places interfaces look; do
    number=$((number + 1))
    often $what $number &
    disturbers="$disturbers $!"
done
sleep $seconds
touch /tmp/end
for disturber in $disturbers; do wait $disturber; done
for transfer in $transfers; do wait $transfer || failed=1; done
for transfer in /tmp/transfer.*; do say "$(cat $transfer)"; done
[ ! -s /tmp/stuck ] || fail "packets are stuck: $(head -n 20 /tmp/stuck)"
[ ! "$failed" ] || fail "a transfer did not finish"
say "held $(awk '{ n += $1 } END { print n + 0 }' /tmp/held) times at least"

for host in a b; do wait_for "the agent on $host is there at the end" ready $host; done
touch /tmp/over
for host in a b; do
    wait_for "no packet stays on $host" empty $host
    check "the agent on $host ends" kill $(cat /tmp/$host.pid)
done
gone() { ! tc -n $1 qdisc show | grep onramp && ! ip -n $1 link show onramp0 && ! ls /run/onrampd-$1/undo-*.json; }
for host in a b; do wait_for "nothing is left on $host" gone $host; done
! grep panicked /tmp/*.log || fail "an agent panicked"
complain
finish 0
