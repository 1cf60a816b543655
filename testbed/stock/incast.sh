#!/bin/dash
# Incast on four processors: a host asks eight others at once, behind a switch whose queue to it overflows, and
# for longer answers of one of them beside. How long its requests take without On-Ramp, with the module's gate
# and with the program's, at the same arrivals of so many $seconds, which $seed gives.
. /lib/common.sh
. /lib/star.sh

# run KIND
run() {
    if [ $1 = observe ]; then agents observe none; else agents enforce $1; fi
    ask $seconds >/tmp/told || fail "$1: $(cat /tmp/told)"
    sed "s/^/GUEST: $1: /" /tmp/told
    say "$1: held $(total held) times, $(total or_acks_received) OR-ACKs"
    onrampctl status --socket /tmp/h1.sock
    kill $agents
    for agent in $agents; do wait $agent; done
    rm /tmp/*.log
}
run observe
[ ! -e /modules/sch_onramp.ko ] || run module
run bpf
for host in r $hosts; do
    check "nothing is left on $host" sh -c "! tc -n $host qdisc show | grep -q onramp && ! ip -n $host link show onramp0"
done
complain
finish 0
