"""The chart's containers on two nodes, as a kubelet would start them.

They have the rendered commands, users, capabilities and mounts, and the image of `make image`. A node is a
network namespace and a folder of its own; containers are podman's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubernetes import ROOT, Object, Rendered, containers, needs

pytest.importorskip("yaml", reason="PyYAML: not installed: make test-chart does")
pytestmark = [
    needs("helm", "podman", "runc", "ip"),
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces take root"),
]

NODES = [{"name": "node-a", "address": "10.9.0.1"}, {"name": "node-b", "address": "10.9.0.2"}]
#: Short rounds; and clocks may be uncertain, for processors are shared.
VALUES: Object = {
    "image.repository": "localhost/onramp",
    "interfaces": ["eth0"],
    "coordinator.nodes": NODES,
    "coordinator.storage.persistent": False,
    "fleet.config": {"window": "200ms", "interval": "2ms", "max_uncertainty": "1ms"},
}
#: CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON.
CAPABILITIES = 1 << 39 | 1 << 12 | 1 << 38
#: Podman's own are above those of machines that are containers themselves.
LIMITS = ["--ulimit=nofile=16384:16384", "--ulimit=nproc=4096:4096"]
#: By what it is known what an agent attaches.
DEVICE = "onramp0"


def run(
    *command: str | Path, check: bool = True, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """How a command ended, well unless `check` is False."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
    return done


def until(what: str, so: Callable[[], bool], log: Callable[[], str] = str) -> None:
    """Wait until something is so; `log` has what may say why it is not."""
    begun = time.monotonic()
    while not so():
        assert time.monotonic() < begun + 60, f"never {what}: {log()}"
        time.sleep(0.1)


def profile() -> Object:
    """Podman's default profile of system calls, with bpf(2) for CAP_BPF, as containerd's has it since 1.7."""
    default: Object = json.loads(Path("/usr/share/containers/seccomp.json").read_text(encoding="utf-8"))
    for rule in default["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name != "bpf"]
    default["syscalls"].append({"names": ["bpf"], "action": "SCMP_ACT_ALLOW"})
    return default


class Cluster:
    """The rendered chart, its secrets, and the containers that run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rendered = Rendered(VALUES)
        self.secrets: dict[str, dict[str, str]] = {}
        self.name = f"or{os.getpid()}"
        self.started: list[str] = []
        self.seccomp = folder / "seccomp.json"
        self.seccomp.write_text(json.dumps(profile()), encoding="utf-8")

    def expand(self, text: str, env: dict[str, str]) -> str:
        return re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], text)

    def source(self, node: Node, kind: str, name: str, pod: Object) -> Path:
        """Where a pod's volume is on a node, with what it is to have."""
        [volume] = [v for v in pod["volumes"] if v["name"] == name]
        if volume.get("hostPath", {}).get("path") == "/sys/fs/cgroup":
            return Path("/sys/fs/cgroup")
        if "hostPath" in volume:
            path: Path = node.folder / volume["hostPath"]["path"].strip("/")
            path.mkdir(parents=True, exist_ok=True)
            return path
        path = node.folder / f"{kind}-{name}"
        path.mkdir(parents=True, exist_ok=True)
        group = pod["securityContext"].get("fsGroup", 0)
        mode = 0o644
        files: dict[str, str] = {}
        if "configMap" in volume:
            files = dict(self.rendered.one("ConfigMap", volume["configMap"]["name"])["data"])
        elif "secret" in volume:
            secret = volume["secret"]["secretName"]
            assert secret in self.secrets or volume["secret"].get("optional"), f"no Secret {secret}"
            files, mode = self.secrets.get(secret, {}), volume["secret"]["defaultMode"]
        else:
            assert "emptyDir" in volume
            os.chown(path, 0, group)
            path.chmod(0o2775)
        for file, text in files.items():
            (path / file).write_text(text, encoding="utf-8")
            os.chown(path / file, 0, group)
            (path / file).chmod(mode)
        return path


class Node:
    """A network namespace, and what a kubelet does there."""

    def __init__(self, cluster: Cluster, name: str, address: str) -> None:
        self.cluster, self.name, self.address = cluster, name, address
        self.namespace = f"{cluster.name}{name}"
        self.folder = cluster.folder / name

    def container(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    def start(
        self, kind: str, name: str, *, wait: bool = False, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Start a container of the pod of the DaemonSet or StatefulSet, and wait for its end if asked to."""
        pod = self.cluster.rendered.pods()[kind]
        spec = containers(pod)[name]
        fields = {"status.hostIP": self.address, "spec.nodeName": self.name}
        env = {
            e["name"]: e["value"] if "value" in e else fields[e["valueFrom"]["fieldRef"]["fieldPath"]]
            for e in spec.get("env", [])
        }
        security = {**pod["securityContext"], **spec["securityContext"]}
        assert pod["hostNetwork"] and security["seccompProfile"] == {"type": "RuntimeDefault"}
        capabilities = security["capabilities"].get("add", [])
        user = f"{security['runAsUser']}:{security['runAsGroup']}"
        options = [
            "--runtime=runc",
            f"--network=ns:/run/netns/{self.namespace}",
            "--pull=never",
            f"--user={user}",
        ]
        options += [f"--name={self.container(name)}", "--replace", "--cap-drop=all"]
        options += [f"--cap-add={capability}" for capability in capabilities]
        options += [f"--security-opt=seccomp={self.cluster.seccomp}"] if "BPF" in capabilities else []
        # Kubernetes mounts nothing that is not asked for.
        options += ["--read-only", "--read-only-tmpfs=false", "--image-volume=ignore"]
        options += ["--security-opt=no-new-privileges"] if not security["allowPrivilegeEscalation"] else []
        options += LIMITS
        options += [f"--env={key}={value}" for key, value in env.items()]
        for mount in spec["volumeMounts"]:
            source = self.cluster.source(self, kind, mount["name"], pod)
            source /= mount.get("subPath", self.cluster.expand(mount.get("subPathExpr", ""), env))
            options.append(f"--volume={source}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}")
        command = [self.cluster.expand(word, env) for word in [*spec["command"], *spec.get("args", [])]]
        detach = [] if wait else ["--detach"]
        self.cluster.started.append(self.container(name))
        entry = f"--entrypoint={json.dumps(command)}"
        return run("podman", "run", *detach, *options, entry, spec["image"], check=check)

    def execute(
        self, name: str, *command: str, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a container, as `kubectl exec -i` and probes do."""
        return run("podman", "exec", "-i", self.container(name), *command, check=check, stdin=stdin)

    def probe(self, kind: str, name: str, probe: str) -> bool:
        """Whether a probe succeeds."""
        command = containers(self.cluster.rendered.pods()[kind])[name][probe]["exec"]["command"]
        return self.execute(name, *command, check=False).returncode == 0

    def serve(self, kind: str, name: str, probe: str) -> None:
        """Start a container, and wait until a probe of it succeeds."""
        self.start(kind, name)
        until(f"does {name} serve", lambda: self.probe(kind, name, probe), lambda: self.log(name))

    def status(self) -> Any:
        """The agent's, or None while there is none."""
        done = self.execute("agent", "onrampctl", "status", "--json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def end(self, name: str) -> int:
        """End a container as a kubelet does; its exit status."""
        pods = self.cluster.rendered.pods().values()
        [grace] = {p.get("terminationGracePeriodSeconds", 30) for p in pods if name in containers(p)}
        run("podman", "stop", f"--time={grace}", self.container(name))
        return int(run("podman", "inspect", "--format={{.State.ExitCode}}", self.container(name)).stdout)

    def log(self, name: str) -> str:
        done = run("podman", "logs", self.container(name), check=False)
        return done.stdout + done.stderr

    def rights(self, name: str) -> dict[str, int]:
        """Rights of a container's first process, as the kernel tells them."""
        lines = self.execute(name, "cat", "/proc/1/status").stdout.splitlines()
        pairs = (line.split(":\t") for line in lines if re.match("CapEff|CapBnd|NoNewPrivs|Seccomp:", line))
        return {key: int(value, 16) for key, value in pairs}

    def metrics(self) -> str:
        """What Prometheus gets."""
        get = f"import urllib.request as r; print(r.urlopen('http://{self.address}:9473/metrics').read().decode())"
        return run("ip", "netns", "exec", self.namespace, "python3", "-c", get).stdout

    def clock(self) -> Any:
        """What the agent says of its clock; nothing while there is none."""
        return (self.status() or {}).get("clock", {})

    def links(self) -> str:
        return run("ip", "-n", self.namespace, "link").stdout


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    """Two nodes with a cable, and the image."""
    archives = sorted((ROOT / "results" / "packages").glob("onramp-image_*.tar"))
    if not archives:
        pytest.skip("there is no image: run make image")
    run("podman", "load", "--quiet", "--input", archives[-1])
    cluster = Cluster(tmp_path)
    a, b = (Node(cluster, node["name"], node["address"]) for node in NODES)
    try:
        for node in (a, b):
            run("ip", "netns", "add", node.namespace)
        run(
            "ip",
            "link",
            "add",
            "eth0",
            "netns",
            a.namespace,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            b.namespace,
        )
        for node in (a, b):
            run("ip", "-n", node.namespace, "address", "add", f"{node.address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                run("ip", "-n", node.namespace, "link", "set", link, "up")
        yield a, b
    finally:
        if cluster.started:
            run("podman", "rm", "--force", "--time=2", "--ignore", *cluster.started, check=False)
        for node in (a, b):
            run("ip", "netns", "del", node.namespace, check=False)


def found(node: Node) -> dict[str, str]:
    """What docs/kubernetes.md has an operator keep in the coordinators' Secret."""
    folder = node.cluster.folder / "founded"
    folder.mkdir()
    image = containers(node.cluster.rendered.pods()["DaemonSet"])["agent"]["image"]
    options = ["--rm", "--runtime=runc", "--network=none", f"--volume={folder}:/out", *LIMITS]
    init = [
        "onrampctl",
        "init",
        "--interface=lo",
        f"--address={node.address}",
        "--elsewhere",
        "--config=/out/onrampd.toml",
    ]
    run("podman", "run", *options, image, *init)
    made = folder / "fleet" / "coordinator"
    return {name: (made / name).read_text(encoding="utf-8") for name in ("authority.key", "authority.pem")}


def test_two_nodes_join_and_get_clocks_and_nothing_is_left(cluster: tuple[Node, Node]) -> None:
    a, b = cluster
    secrets = a.cluster.secrets
    secrets["onramp-coordinator"] = found(a)
    for node in cluster:
        node.start("StatefulSet", "folders", wait=True)
        node.serve("StatefulSet", "coordinator", "readinessProbe")

    # Before there is a token it is waited for.
    a.start("DaemonSet", "join")
    until("does it wait", lambda: "/token/token: there is no token yet" in a.log("join"))
    token = a.execute("coordinator", "onrampctl", "token", "create", "--uses=2").stdout
    secrets["onramp-token"] = {"token": token}
    for node in cluster:
        assert DEVICE not in node.links()
        node.start("DaemonSet", "join", wait=True)
        node.serve("DaemonSet", "agent", "startupProbe")
        node.start("DaemonSet", "exporter")
        assert DEVICE in node.links()

    until("are both clocks known", lambda: all(node.clock().get("known") for node in cluster))
    assert all(node.status()["mode"] == "observe" for node in cluster)
    hosts = json.loads(b.execute("agent", "onrampctl", "fleet", "--json").stdout)["hosts"]
    assert {host["address"]: host["connected"] for host in hosts} == {"10.9.0.1": True, "10.9.0.2": True}
    for node in cluster:
        for name, capabilities in (("agent", CAPABILITIES), ("exporter", 0), ("coordinator", 0)):
            held = {"CapBnd": capabilities, "CapEff": capabilities, "NoNewPrivs": 1, "Seccomp": 2}
            assert node.rights(name) == held, name
        metrics = node.metrics()
        assert "\nonramp_up 1.0\n" in metrics and "\nonramp_clock_synchronised 1.0\n" in metrics, metrics
        assert node.probe("DaemonSet", "agent", "livenessProbe")

    # The standby takes over.
    assert a.clock()["coordinator"] == "10.9.0.1:9472"
    assert a.end("coordinator") == 0
    standby = "10.9.0.2:9472"
    until("is the standby asked", lambda: all(node.clock()["coordinator"] == standby for node in cluster))

    # A node that has joined starts without a token, also after a crash.
    del secrets["onramp-token"]
    (a.folder / "DaemonSet-token" / "token").unlink()
    run("podman", "kill", "--signal=KILL", a.container("agent"))
    assert not a.probe("DaemonSet", "agent", "livenessProbe")
    a.start("DaemonSet", "join", wait=True)
    a.serve("DaemonSet", "agent", "startupProbe")
    until("is its clock known again", lambda: a.clock().get("known") is True)

    # What an operator says in a coordinator's pod is kept there.
    policy = ["onrampctl", "policy", "set", "/dev/stdin"]
    made = b.execute("coordinator", *policy, stdin='[[rule]]\nmode = "observe"\n', check=False)
    assert "rule 1 (every host): observe · 2 of 2 hosts" in made.stdout, (made.stdout, made.stderr)
    assert "10.9.0.1:9472" in made.stderr, "the other coordinator has ended"
    until("do they follow", lambda: all(node.status()["policy"]["version"] == 1 for node in cluster))
    removed = b.execute("coordinator", "onrampctl", "fleet", "remove", a.address, check=False)
    assert "it holds on this one" in removed.stderr, removed
    until("is it out of the fleet", lambda: "was removed from the fleet" in (a.clock().get("reason") or ""))

    for node in cluster:
        assert node.end("exporter") == 0
        assert node.end("agent") == 0, node.log("agent")
        assert DEVICE not in node.links()
        assert not list((node.folder / "run/onrampd").iterdir())
        kept = sorted(path.name for path in (node.folder / "var/lib/onrampd").iterdir())
        assert kept == ["fleet", "history", "joined.toml", "onrampd.toml"]
    assert b.end("coordinator") == 0
