#!/bin/dash
# One machine of two, as README's operators set it up: installed, in a fleet, enforcing, by the unit's
# user with the unit's capabilities. Which machine it is the kernel's command line says.
. /lib/common.sh
modules failover net_failover virtio_net dummy sch_ingress cls_bpf
us=$(sed -n 's/.*machine=\([ab]\).*/\1/p' /proc/cmdline)
[ $us = a ] && address=10.0.0.1 other=10.0.0.2 || address=10.0.0.2 other=10.0.0.1
check "eth0" sh -c "ip addr add $address/24 dev eth0 && ip link set eth0 up"
# What systemd-sysusers makes of packaging/onrampd.sysusers.
printf 'root:x:0:0::/:/bin/sh\nonrampd:x:990:990::/:/bin/sh\nonrampd-coordinator:x:991:991::/:/bin/sh\n' >/etc/passwd
printf 'root:x:0:\nonrampd:x:990:\nonrampd-coordinator:x:991:\n' >/etc/group
config=/etc/onrampd/onrampd.toml unit=/usr/lib/systemd/system/onrampd.service

# As with Secure Boot: no module that nobody signed, no writing into the kernel.
mount -t securityfs security /sys/kernel/security
check "the kernel is locked down" grep -q '\[integrity\]' /sys/kernel/security/lockdown

# Emulated processors stamp within some 40 us where a machine's do within 0.3. Beside other work stamps within 70 us and
# clocks within 117 us were seen, and with a limit of 200 us the other end's clock was not known then.
lax() {
    sed -i 's/^\[fleet\]$/&\nmax_uncertainty = "1ms"\nlabels = { machine = "'$us'" }/' $config
    check "clocks may be off by 1 ms" grep -q '^max_uncertainty = "1ms"' $config
}

# The service, as systemd starts it.
service() {
    mkdir -p /run/onrampd
    chown onrampd:onrampd /run/onrampd
    caps=-all$(sed -n 's/^AmbientCapabilities=//p' $unit | tr ' A-Z' '\na-z' | sed 's/^cap_/,+/' | tr -d '\n')
    setpriv --reuid onrampd --regid onrampd --clear-groups --no-new-privs --bounding-set $caps --inh-caps $caps \
        --ambient-caps $caps onrampd run --config $config >/tmp/agent.log 2>&1 &
    agent=$!
    wait_for "the agent is ready" grep -q '^ready' /tmp/agent.log
}
# as USER COMMAND…: with the user's groups only, and no capability
as() {
    user=$1
    shift
    setpriv --reuid $user --regid $user --clear-groups --no-new-privs --bounding-set -all --inh-caps -all \
        --ambient-caps -all "$@"
}
status() { onrampctl status --json; }
# known KEY LEAST: a number of the status has reached it; all that it says is what a failure shows
known() { status | tee /tmp/status; [ "$(number $1 </tmp/status)" -ge $2 ]; }
# is TEXT: the status has it
# What it says instead is what a failure shows.
is() { status | tee /tmp/status; grep -q "$1" /tmp/status; }
# meet PORT: the other machine is as far
meet() {
    if [ $us = a ]; then
        check "meeting" nc -l -p $1 -e true
    else
        wait_for "meeting" nc $other $1 </dev/null
    fi
}
# load WHAT: from b to a
load() {
    [ $us = a ] || check "$1" iperf3 -c $other -P 8 -t 5
}

iperf3 -s -D >/dev/null
for port in 5202 5203; do iperf3 -s -p $port -D >/dev/null; done
onrampctl doctor >/tmp/doctor
check "the doctor" grep -q '^ok   gate  *bpf (this kernel takes a program)' /tmp/doctor
if [ $us = a ]; then
    check "init" onrampctl init --interface eth0 --address $address
    lax
    key=/etc/onrampd/fleet/coordinator/authority.key
    refuse "the authority's key to the agent's user" as onrampd cat $key
    as onrampd-coordinator onrampd coordinator --config $config >/tmp/coordinator.log 2>&1 &
    wait_for "the coordinator is ready" grep -q '^ready' /tmp/coordinator.log
    service
    onrampctl token create >/tmp/token || fail "no token"
    check "the token" nc -l -p 7001 -e cat /tmp/token
else
    token() { nc $other 7001 </dev/null >/tmp/token && [ -s /tmp/token ]; }
    wait_for "the token" token
    check "join" onrampctl join --token-file /tmp/token --interface eth0
    lax
    service
fi
# Shown if it never is.
dmesg | grep -i 'tsc' >/tmp/tsc.log
wait_for "the clock is known" is '"known":true'
check "it observes" is '"mode":"observe"'
meet 7002
load "while they observe"
meet 7003

# policy RULE: the fleet's, by an operator on a
policy() { [ $us = b ] || { echo "$1" >/tmp/policy.toml && onrampctl policy set /tmp/policy.toml --message trial; }; }
# tells COMMAND…: what it says, line by line
tells() { "$@" | while IFS= read -r line; do say "$line"; done; }
# What b sends is compared with before and with what a sends.
if [ $us = a ]; then
    iperf3 -c $other -p 5203 -t 45 >/tmp/iperf3.log 2>&1 &
    iperf3 -c $other -p 5202 -R -t 45 >/tmp/iperf3.log 2>&1 &
    # roll GUARD: out to b
    roll() { onrampctl rollout --label machine=b --for 20s --if-open go-on --guard "$1" >/tmp/rollout; }
    check "a rollout" roll 'goodput > 0.01x, retransmissions < 90x'
    tells cat /tmp/rollout
    check "no rule is about it" is 'no rule of policy version 2'
    check "it observes still" is '"mode":"observe","gate"'
else
    wait_for "it enforces" is '"mode":"enforce","gate":{"kind":"bpf"'
    check "the agent's user keeps the policy" [ "$(stat -c %U /etc/onrampd/fleet/host/policy.json)" = onrampd ]
fi
meet 7008
check "the policy of both" policy '[[rule]]
mode = "enforce"'
wait_for "it enforces" is '"mode":"enforce","gate":{"kind":"bpf"'
check "by a program" sh -c "tc qdisc show dev eth0 | grep -q 'qdisc onramp_'"
meet 7004
# By stamps that are told afterwards.
# One of the two asks.
exchanges() { echo $(($(status | number probes_returned) + $(status | number probes_answered))); }
before=$(exchanges)
more() { [ $(($(exchanges) - before)) -ge 1000 ]; }
wait_for "probes and answers" more
wait_for "the clock is known still" is '"known":true'
say "$(onrampctl status | grep '^clock')"
onrampctl record --for 20s --out /tmp/recording >/tmp/recorder.log 2>&1 &
recorder=$!
load "while they enforce"
[ $us = a ] || {
    kill $recorder && wait $recorder
    check "it records flows by the fleet's time" sh -c "grep -q '^# time = fleet' /tmp/recording && grep -q '^10.0.0.2,.*,acked' /tmp/recording"
    check "the recorder may ask all along" sh -c "! grep 'denied' /tmp/recorder.log"
}
[ $us = a ] || { check "it held" known held 10; say "held $(status | number held) times"; }
wait_for "the fleet" sh -c "onrampctl fleet | grep -c synchronised | grep -q 2"
onrampctl status
check "no problems" is '"problems":\[\]'
meet 7005
# Both hold nothing any more, and their queueing disciplines of before are back.
[ $us = b ] || say "$(onrampctl stop-holding --fleet)"
wait_for "holding is stopped" is '"mode":"observe","gate"'
check "by the operator" is 'holding is stopped in the whole fleet, by '
check "the gate is gone" sh -c "! tc qdisc show dev eth0 | grep -q 'qdisc onramp_'"
meet 7009
[ $us = b ] || check "end of that" onrampctl stop-holding --fleet --end
wait_for "it enforces again" is '"mode":"enforce","gate":{"kind":"bpf"'
tells sh -c "onrampctl status | head -n 5"
[ $us = b ] || { tells onrampctl policy show && tells onrampctl policy history; }
tells grep -sh 'policy version\|mode of' /tmp/coordinator.log /tmp/agent.log
meet 7010
kill $agent && wait $agent
# What traffic met stays, for reports.
check "nothing is left" sh -c "! tc qdisc show | grep onramp && ! ip link show onramp0 && [ -z \"\$(ls /run/onrampd | grep -v ^effects-)\" ]"
complain
finish 0
