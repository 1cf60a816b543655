#!/bin/dash
# The agent on host a as systemd runs it, by the unit that is installed: its user and its sandbox, and what
# becomes of the gate when the agent reloads, is upgraded, crashes, is restarted and stopped. Then a fleet
# whose coordinator is a unit of its own.
if [ $$ = 1 ]; then
    # A service's own view of the files takes a root that can be moved away from.
    export PATH=/bin
    mkdir /new
    mount -t tmpfs new /new
    for part in /*; do [ $part = /new ] || cp -a $part /new/; done
    exec switch_root /new /lib/systemd/systemd
fi
exec >/dev/console 2>&1
. /lib/common.sh
modules veth dummy sch_ingress cls_bpf
# Host a is the machine itself.
ip netns attach a 1
ip netns add b
ip -n b link set lo up
link

status() { onrampctl status --json; }
# is WHAT VALUE: what systemd says of the service
is() { [ "$(systemctl show -P $1 onrampd)" = "$2" ]; }

echo 'root:x:0:0::/:/bin/sh' >/etc/passwd
echo 'root:x:0:' >/etc/group
check "its user" systemd-sysusers
configured observe
gate=bpf
start b enforce eth0 0ns 10.0.0.1

check "it starts" systemctl start onrampd
check "it is ready" is ActiveState active
check "as its user" grep -q "^Uid:.$(id -u onrampd)" /proc/$(systemctl show -P MainPID onrampd)/status
send "while it observes"
sed -i 's/^mode = .*/mode = "enforce"/' /etc/onrampd/onrampd.toml
check "it reloads" systemctl reload onrampd
enforces() { status | grep -q '"gate":{"kind":"bpf"' && qdisc | grep -q 'qdisc onramp_'; }
wait_for "it enforces by a program" enforces
kept=$(systemctl show -P NFileDescriptorStore onrampd)
[ "$kept" -gt 0 ] || fail "systemd keeps no maps"
say "systemd keeps $kept maps"

counts_tcp
reports() { onrampctl report --since 10min --json >/tmp/report && grep -q '"observe":{"blocks":[1-9]' /tmp/report; }
wait_for "a report of before and after" reports
check "a page of it" onrampctl report --since 10min --html /tmp/report.html
check "it has charts" grep -q '</svg>' /tmp/report.html

was=$(which_gate)
begin
holds 20
sent=$(status | number sent)
systemctl kill -s KILL onrampd
again() { is NRestarts 1 && is ActiveState active; }
wait_for "it is started again after a crash" again
holds 20
arrives "a transfer during a crash"
the_same "after a crash"
[ "$(status | number sent)" -gt $sent ] || fail "counters began anew"
check "systemd keeps as many" is NFileDescriptorStore $kept

# An upgrade, to what is the same program in another file.
begin
holds 20
check "another file" sh -c "cp /bin/onrampd /usr/bin/new && mv /usr/bin/new /usr/bin/onrampd"
check "an upgrade" systemctl kill -s USR2 onrampd
wait_for "the new agent is ready" sh -c '[ "$(grep -c ^ready /tmp/onrampd.log)" = 3 ]'
holds 20
arrives "a transfer during an upgrade"
the_same "after an upgrade"
check "systemd keeps the same number" is NFileDescriptorStore $kept
check "one crash" is NRestarts 1

# Of another program, which takes the old one's place.
was=$(which_gate)
begin
holds 20
check "another program" mv /bin/onrampd-next /usr/bin/onrampd
check "an upgrade to it" systemctl kill -s USR2 onrampd
wait_for "the next agent is ready" sh -c '[ "$(grep -c ^ready /tmp/onrampd.log)" = 4 ]'
other() { which_gate | grep -q 'qdisc onramp_' && [ "$(which_gate)" != "$was" ]; }
wait_for "another gate" other
holds 20
arrives "a transfer during an upgrade to another program"

begin
holds 20
check "it is restarted" systemctl restart onrampd
wait_for "it enforces again" enforces
holds 20
arrives "a transfer during a restart"

# One that hangs; the watchdog's time is that of the unit in real life.
begin
mkdir -p /run/systemd/system/onrampd.service.d
printf '[Service]\nWatchdogSec=3\n' >/run/systemd/system/onrampd.service.d/watchdog.conf
systemctl daemon-reload
check "it is restarted with a watchdog" systemctl restart onrampd
wait_for "it enforces with a watchdog" enforces
hung=$(systemctl show -P MainPID onrampd)
kill -STOP $hung
anew() { [ "$(systemctl show -P MainPID onrampd)" != $hung ] && enforces; }
wait_for "one that hangs is started again" anew
arrives "a transfer while it hung"

status | grep -q '"problems":\[\]' || fail "$(status)"
check "it stops" systemctl stop onrampd
check "systemd keeps nothing" is NFileDescriptorStore 0
check "nor is its directory left" [ ! -e /run/onrampd ]
check "what traffic met is" grep -q '"at":' /var/lib/onrampd/effects-0-*.jsonl
check "it ended well" is Result success
stop b
for host in a b; do
    check "nothing is left on $host" sh -c "! tc -n $host qdisc show | grep -q onramp && ! ip -n $host link show onramp0"
done

config=/etc/onrampd/onrampd.toml
rm $config
check "a fleet" onrampctl init --interface eth0 --address 10.0.0.1
# init's is for longer: the agent replaces it.
echo 'certificate_life = "30d"' >>$config
# key FILE MODE:USER:GROUP: that is whose it is
key() { [ "$(stat -c %a:%U:%G /etc/onrampd/fleet/coordinator/$1)" = "$2" ]; }
check "the authority's key is the coordinator's" key authority.key 640:root:onrampd-coordinator
check "so are tokens" key tokens 2770:root:onrampd-coordinator
check "so are lists" key lists 2770:root:onrampd-coordinator
check "its coordinator starts" systemctl start onrampd-coordinator
token=$(onrampctl token create)
coordinator() { systemctl show -P $1 onrampd-coordinator; }
ours() { grep -q "$1" /proc/$(coordinator MainPID)/status; }
check "the coordinator's user" ours "^Uid:.$(id -u onrampd-coordinator)"
check "the coordinator's capabilities" ours '^CapBnd:.0*$'
check "b joins" ip netns exec b onrampctl join "$token" --interface eth0 --config /tmp/b/onrampd.toml
sed -i -e '1i socket = "/tmp/b.sock"' -e '1i state_dir = "/run/onrampd-b"' /tmp/b/onrampd.toml
ip netns exec b onrampd run --config /tmp/b/onrampd.toml >/tmp/b.log 2>&1 &
pid_b=$!
# Of two, init's is left.
counted() { [ "$(onrampctl token list | grep -c any)" = 1 ]; }
check "the token is counted" counted
# As udev has it by packaging/onrampd.rules, where there is one.
check "a hypervisor's clock" sh -c "mknod /dev/vmclock0 c 1 5 && chgrp onrampd /dev/vmclock0 && chmod 440 /dev/vmclock0"
check "the member on a starts" systemctl start onrampd
member=$(systemctl show -P MainPID onrampd)
check "it reads the hypervisor's clock" sh -c "ls -l /proc/$member/fd | grep /dev/vmclock0"
check "and sees no other device" sh -c "[ -e /dev/ttyS0 ] && [ ! -e /proc/$member/root/dev/ttyS0 ]"
both() { [ "$(onrampctl fleet | grep -c synchronised)" = 2 ]; }
wait_for "both are synchronised" both
renewed() { [ "$(stat -c %U /etc/onrampd/fleet/host/host.pem)" = onrampd ]; }
wait_for "its certificate is renewed" renewed
# An operator writes the policy, and the agent keeps it, each in its sandbox.
printf '[[rule]]\nmode = "observe"\n' >/tmp/policy.toml
check "a policy" onrampctl policy set /tmp/policy.toml
check "it is the coordinator's" key lists/policy.json 644:root:onrampd-coordinator
kept() { [ "$(stat -c %U /etc/onrampd/fleet/host/policy.json)" = onrampd ]; }
wait_for "the agent keeps it" kept
# without THREAD: of the agent, capabilities
without() {
    for task in /proc/$(systemctl show -P MainPID onrampd)/task/*; do
        grep -q "^Name:.$1$" $task/status && grep -q "^CapEff:.0*$" $task/status && return
    done
    false
}
check "the thread of the fleet has no capabilities" without sync
check "the coordinator crashes" systemctl kill -s KILL onrampd-coordinator
anew() { [ $(coordinator NRestarts) = 1 ] && both; }
wait_for "both are synchronised again" anew
status | grep -q '"known":true' || fail "$(status)"
check "the member on a stops" systemctl stop onrampd
check "the coordinator stops" systemctl stop onrampd-coordinator
check "the coordinator ended well" [ "$(coordinator Result)" = success ]
stop b
complain
finish 0
