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
left
complain
finish 0
