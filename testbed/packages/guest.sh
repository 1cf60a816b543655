#!/bin/sh
# Packages of the agent, its client, a coordinator and the gate's module, on a host with systemd: installed, upgraded
# under traffic, removed, purged; as .deb, then as .rpm.
. /root/given/common.sh
unset TC_LIB_DIR
mkdir /root/bin
for applet in nc dd wget; do ln -s "$(command -v busybox)" /root/bin/$applet; done
export PATH=/root/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd /root/given || fail "nothing was given"

config=/etc/onrampd/onrampd.toml
status() { onrampctl status --json; }
# is WHAT VALUE: what systemd says of the service
is() { [ "$(systemctl show -P $1 onrampd)" = "$2" ]; }
# Host a is the machine itself.
ip netns attach a 1
ip netns add b
ip -n b link set lo up
link

# everything KIND INSTALL UPGRADE REMOVE: from the first installation to what is left
everything() {
    kind=$1
    check "$kind: it installs" $2
    check "$kind: the module is there for this kernel" modinfo sch_onramp
    check "$kind: its users" getent passwd onrampd onrampd-coordinator
    check "$kind: its unit is well formed" systemd-analyze verify onrampd.service onrampd-coordinator.service onrampd-exporter.service
    refuse "$kind: an agent that runs without a configuration" systemctl --quiet is-active onrampd
    for file in man/man8/onrampd.8.gz man/man8/onrampctl-join.8.gz bash-completion/completions/onrampctl; do
        [ -s /usr/share/$file ] || fail "$kind: no $file"
    done
    check "$kind: the doctor" sh -c "onrampctl doctor >/tmp/doctor || grep -q . /tmp/doctor"

    configured enforce
    gate= keys=
    start b enforce eth0 0ns 10.0.0.1
    check "$kind: it starts" systemctl enable --now --quiet onrampd
    was=$(which_gate)
    begin
    holds 20
    pid=$(systemctl show -P MainPID onrampd)
    kept=$(sha256sum /etc/onrampd/*)
    check "$kind: an upgrade under traffic" $3
    upgraded() { is ActiveState active && [ "$(readlink /proc/$pid/exe)" = /usr/bin/onrampd ]; }
    wait_for "$kind: the new program runs in the old one's place" upgraded
    holds 20
    arrives "$kind: a transfer during an upgrade"
    the_same "$kind: upgrade"
    [ "$kept" = "$(sha256sum /etc/onrampd/*)" ] || fail "$kind: the configuration has changed"
    say "$kind: the configuration is kept"

    check "$kind: its exporter starts" systemctl start onrampd-exporter
    told() { wget -qO - http://127.0.0.1:9473/metrics | grep -q '^onramp_enforcing 1'; }
    wait_for "$kind: what Prometheus is told" told

    # A fleet of one: its coordinator is a unit of its own.
    check "$kind: it stops" systemctl stop onrampd
    rm -f /etc/onrampd/*
    check "$kind: a fleet is founded" onrampctl init --interface eth0 --address 10.0.0.1
    check "$kind: its coordinator starts" systemctl start onrampd-coordinator
    check "$kind: its first host starts" systemctl start onrampd
    alone() { onrampctl fleet | grep -q alone; }
    wait_for "$kind: the coordinator knows it" alone

    stop b
    check "$kind: it is removed" $4
    refuse "$kind: an agent that still runs" systemctl --quiet is-active onrampd onrampd-coordinator onrampd-exporter
    check "$kind: the gate is gone" sh -c "! tc qdisc show | grep -q onramp"
    # Its file is gone already, and with it the name that modprobe would look up.
    check "$kind: its module goes" sh -c "! modinfo sch_onramp && rmmod sch_onramp"
    [ -s $config ] || fail "$kind: the configuration is gone"
}

deb_install() { dpkg -i old/*.deb; }
deb_upgrade() { dpkg -i new/*.deb; }
deb_remove() { dpkg -r onrampd-coordinator onrampd onrampctl onramp-dkms; }
everything deb deb_install deb_upgrade deb_remove
check "deb: it is purged" dpkg -P onrampd-coordinator onrampd onrampctl onramp-dkms
[ ! -e /etc/onrampd ] || fail "deb: purged, and $(ls -R /etc/onrampd) is left"
left=$(find / -xdev -iname '*onramp*' -not -path '/root/*' -not -path '/proc/*' -not -path '/sys/*' -not -path '/tmp/*')
[ -z "$left" ] || fail "deb: left: $left"
say "deb: nothing is left"

# Dependencies have Fedora's names.
rpm_install() { rpm -i --nodeps old/*.rpm; }
rpm_upgrade() { rpm -U --nodeps new/*.rpm; }
rpm_remove() { rpm -e onrampd-coordinator onrampd onrampctl onramp-dkms; }
everything rpm rpm_install rpm_upgrade rpm_remove
complain
finish 0
