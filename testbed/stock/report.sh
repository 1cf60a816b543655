#!/bin/dash
# What an operator sees of enforcing: incasts for so many $seconds while agents observe, for as many while they hold by
# the gate's program, then the report of one that answers, as text and as a page.
. /lib/common.sh
. /lib/star.sh

agents observe bpf
ask $seconds >/tmp/told || fail "observing: $(cat /tmp/told)"
sed 's/^/GUEST: observing: /' /tmp/told
sed -i 's/^mode = .*/mode = "enforce"/' /tmp/*.toml
kill -HUP $agents
enforcing() { for host in r $hosts; do onrampctl status --json --socket /tmp/$host.sock | grep -q '"mode":"enforce"' || return; done; }
wait_for "they enforce" enforcing
seed=$((seed + 1))
ask $seconds >/tmp/told || fail "enforcing: $(cat /tmp/told)"
sed 's/^/GUEST: enforcing: /' /tmp/told
check "a report" onrampctl report --socket /tmp/h1.sock --since $((3 * seconds))s --html /tmp/report.html
sed 's/^/GUEST: /' /tmp/out
echo "PAGE begins"
gzip -c /tmp/report.html | base64
echo "PAGE ends"
complain
finish 0
