#!/bin/dash
# The agent where real hosts have their addresses: on bonds, on and below VLANs, below pods, and on
# several addresses at once. Packets are measured and held, or left alone.
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf tls llc stp garp mrp 8021q bridge sch_onramp
check "module bonding" insmod /modules/bonding.ko max_bonds=0
hosts
gate=module

status() { onrampctl status --json --socket /tmp/a.sock; }
# to ADDRESS: OR-ACKs of packets to there
to() { status | tr '{' '\n' | grep "\"peer\": *\"$1\"" | number or_acks; }
# taken WHAT FROM TO ADDRESS: packets are measured, and held. 2 MB are 32 segments of 64 KB where nothing
# cuts them, and two that come together share an OR-ACK.
taken() {
    before=$(status | number held)
    send "$1" $2 $3 "$4" 2M
    acks=$(to $4) held=$(($(status | number held) - before))
    [ "${acks:-0}" -ge 10 ] && [ $held -ge 5 ] || { status; fail "$1: ${acks:-no} OR-ACKs, held $held times"; }
    say "$1: $acks OR-ACKs, held $held times"
}
# ignored WHAT FROM TO ADDRESS: no packet is taken for a peer's
ignored() {
    before=$(status | number sent)
    send "$1" $2 $3 "$4" 2M
    sent=$(($(status | number sent) - before))
    [ "$before" ] && [ $sent = 0 ] || { status; fail "$1: $sent packets were not left alone"; }
    say "$1: left alone"
}

# Two links, one address.
for mode in active-backup balance-xor; do
    for host in a b; do ip -n $host link add bond0 type bond mode $mode miimon 100; done
    for link in 1 2; do
        ip link add link$link netns a type veth peer name link$link netns b
        for host in a b; do
            ip -n $host link set link$link master bond0
            ip -n $host link set link$link up
        done
    done
    address a bond0 10.1.0.1/24
    address b bond0 10.1.0.2/24
    start a enforce bond0 -100ms 10.1.0.2
    start b enforce bond0 0ns 10.1.0.1
    taken "bond0, $mode" a b 10.1.0.2
    left
    for host in a b; do ip -n $host link del bond0; done
    for link in 1 2; do ip -n a link del link$link; done
done

# A VLAN's tag is beside the packet where the programs see it, not in it; the inner one of two is not.
for host in a b; do
    ip -n $host link add link eth0 name eth0.5 type vlan id 5
    ip -n $host link add link eth0 name outer type vlan id 6 protocol 802.1ad
    ip -n $host link set outer up
    ip -n $host link add link outer name inner type vlan id 7
done
address a eth0.5 10.5.0.1/24
address b eth0.5 10.5.0.2/24
address a inner 10.6.0.1/24
address b inner 10.6.0.2/24

# Pods: behind a bridge on host a, behind a route on b.
for pod in pa pb; do
    ip netns add $pod
    ip -n $pod link set lo up
done
ip -n a link add cni0 type bridge
address a cni0 10.7.1.1/24
ip link add eth0 netns pa type veth peer name pa netns a
ip -n a link set pa master cni0 up
address pa eth0 10.7.1.2/24
ip -n pa addr add 10.7.1.3/24 dev eth0
ip -n pa route add default via 10.7.1.1
ip link add eth0 netns pb type veth peer name pb netns b
address b pb 10.7.2.1/24
address pb eth0 10.7.2.2/24
ip -n pb addr add 10.7.2.3/24 dev eth0
ip -n pb route add default via 10.7.2.1
ip -n a route add 10.7.2.0/24 via 10.0.0.2
ip -n b route add 10.7.1.0/24 via 10.0.0.1
for host in a b; do ip netns exec $host sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'; done

# IPv6, and a second IPv4 address.
ip -n b addr add 10.0.0.3/24 dev eth0
ip -n a addr add fd00::1/64 dev eth0 nodad
ip -n b addr add fd00::2/64 dev eth0 nodad

start a enforce eth0 -100ms 10.0.0.2 10.0.0.3 fd00::2 10.5.0.2 10.6.0.2 10.7.2.2
start b enforce eth0 0ns 10.0.0.1 fd00::1 10.5.0.1 10.6.0.1 10.7.1.2
taken "VLAN, the agents below it" a b 10.5.0.2
ignored "two tags" a b 10.6.0.2
taken "pods" pa pb 10.7.2.2
ignored "pods that are not listed" pa pb "10.7.2.3 -B 10.7.1.3"

addresses="10.0.0.2 10.0.0.3 fd00::2"
for address in $addresses; do ip netns exec b iperf3 -s -1 -D -B $address >/dev/null; done
sleep 1
loads=
for address in $addresses; do
    ip netns exec a iperf3 -c $address -n 2M >/tmp/iperf.$address 2>&1 &
    loads="$loads $!"
done
for load in $loads; do wait $load || { cat /tmp/iperf.*; fail "iperf3 to $addresses"; }; done
for address in $addresses; do
    acks=$(to $address)
    [ "${acks:-0}" -ge 10 ] || { status; fail "$address: ${acks:-no} OR-ACKs"; }
    say "$address, with the others: $acks OR-ACKs"
done

# The receiver's OR-ACKs have the tag: they arrive on the VLAN.
stop a
start a enforce eth0.5 -100ms 10.5.0.2
taken "VLAN, the receiver's agent below it" a b 10.5.0.2

# stray: UDP that reached the pod on a, where nobody listens
stray() { ip netns exec pa awk '/^Udp:/ { n = $3 } END { print n }' /proc/net/snmp; }
[ "$(stray)" = 0 ] || fail "$(stray) OR-ACKs reached the pod"
say "no OR-ACK reached the pod"
# Without an agent below they would have.
send "pods, no agent on eth0 of a" pa pb 10.7.2.2 2M
[ "$(stray)" -gt 0 ] || fail "no OR-ACK reached the pod without an agent"

stop b
start b enforce eth0.5 0ns 10.5.0.1
taken "VLAN, the agents on it" a b 10.5.0.2
sed 's/^interfaces = .*/interfaces = ["eth0", "eth0.5"]/' /tmp/a.toml >/tmp/both.toml
check "the doctor refuses both" sh -c "ip netns exec a onrampctl doctor --config /tmp/both.toml | grep -q '^FAIL eth0.5 .*above eth0'"
left
record() { onrampctl record --interface lo --config /none --for 1s --out /tmp/recording; }
case $(uname -r) in
6.1.*) refuse "a recording without TCX" record ;;
*) check "it records" record ;;
esac
check "the module unloads" rmmod sch_onramp
complain
finish 0
