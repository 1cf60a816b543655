#!/bin/dash
# What the doctor says of a kernel; then two hosts that observe each other, without a gate.
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf
onrampctl doctor | sed 's/^/GUEST: /'
hosts
start a observe eth0 0ns 10.0.0.2
start b observe eth0 0ns 10.0.0.1
send "observed"
acked "delays" 50

# Tunnels: flows inside are not measured, which the doctor says. WireGuard needs modules that are not the same in all kernels.
modules udp_tunnel ip6_udp_tunnel vxlan geneve ip_tunnel tunnel4 ipip gre ip_gre
for module in libcurve25519-generic libcurve25519 curve25519-x86_64 libchacha chacha-x86_64 libpoly1305 poly1305-x86_64 libchacha20poly1305 wireguard; do
    insmod /modules/$module.ko 2>/dev/null
done
told() { ip netns exec a onrampctl doctor --config /tmp/a.toml | grep '^warn tunnels' | grep -qF "$1"; }
# tunnel NAME KIND OPTION…
tunnel() {
    called=$1
    shift
    check "a tunnel of $called" ip -n a link add tunnel type "$@"
    check "the doctor tells of it" told "tunnel ($called)"
    check "it goes" ip -n a link del tunnel
}
tunnel VXLAN vxlan id 7 dstport 4789 dev eth0
tunnel Geneve geneve id 7 remote 10.0.0.2
tunnel IPIP ipip local 10.0.0.1 remote 10.0.0.2
tunnel GRE gre local 10.0.0.1 remote 10.0.0.2
tunnel GRE gretap local 10.0.0.1 remote 10.0.0.2
if ip -n a link add tunnel type wireguard 2>/dev/null; then
    ip -n a link del tunnel
    tunnel WireGuard wireguard
else
    say "no WireGuard"
fi
left
complain
finish 0
