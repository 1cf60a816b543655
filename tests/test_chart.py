"""The Helm chart: what it renders, what it refuses, and its containers at work in network namespaces."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from kubernetes import (
    CHART,
    NEWEST,
    OLDEST,
    ROOT,
    Object,
    Rendered,
    containers,
    given,
    helm,
    needs,
    schemas,
    template,
    tool,
)

pytest.importorskip("yaml", reason="PyYAML: not installed: make test-chart does")
pytestmark = needs("helm")

NODES = [{"name": "node-a", "address": "10.9.0.1"}, {"name": "node-b", "address": "10.9.0.2"}]
#: All that has to be given.
LEAST: Object = {"interfaces": ["eth0"], "coordinator.nodes": NODES}
#: Everything that can be asked for.
MOST: Object = {
    **LEAST,
    "mode": "enforce",
    "labels": {"rack": "b7", "example.org/zone": "1"},
    "config": {"threshold_floor": "20us", "max_share": 1, "max_flows": 1048576, "cut": False},
    "gate": {"kind": "bpf", "bytes": "32MiB"},
    "fleet.config": {"max_uncertainty": "10us", "probes": 4},
    "imagePullSecrets": [{"name": "registry"}],
    "agent.nodeSelector": {"onramp": "yes"},
    "agent.tolerations": [{"operator": "Exists"}],
    "agent.affinity": {"nodeAffinity": {}},
    "agent.priorityClassName": "system-node-critical",
    "agent.maxUnavailable": "10%",
    "agent.seccompProfile": {"type": "Unconfined"},
    "coordinator.tolerations": [{"operator": "Exists"}],
    "coordinator.priorityClassName": "system-cluster-critical",
    "coordinator.storage": {"persistent": True, "className": "local", "size": "1Gi"},
    "podMonitor": {"enabled": True, "interval": "1m", "labels": {"release": "prometheus"}},
    "serviceAccount": {"name": "other", "annotations": {"a": "b"}},
}
ELSEWHERE: Object = {
    "interfaces": ["eth0", "eth1"],
    "fleet.coordinators": ["10.9.0.9:9472", "[fd09::9]:9472"],
}
WITHOUT: Object = {**LEAST, "exporter.enabled": False, "coordinator.storage.persistent": False}
LABELLED: Object = {**MOST, "nodeLabels": ["topology.kubernetes.io/zone", "row"]}
ALL = {"least": LEAST, "most": MOST, "elsewhere": ELSEWHERE, "without": WITHOUT, "labelled": LABELLED}


def unit(name: str) -> dict[str, list[str]]:
    """Keys and values of a systemd unit."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "packaging" / f"{name}.service").read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def onrampctl(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """How a call of the client that was built ended."""
    built = [ROOT / "target" / build / "onrampctl" for build in ("release", "debug")]
    program = next((path for path in built if path.exists()), None)
    if program is None:
        pytest.skip("onrampctl is not built: run make agent")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def test_helm_finds_nothing_to_complain_of() -> None:
    for values in ALL.values():
        done = helm("lint", CHART, "--strict", *given(values))
        assert done.returncode == 0 and "WARNING" not in done.stdout, done.stdout + done.stderr


@needs("kubeconform", "controller-gen", "go")
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_would_take_every_object(version: str, tmp_path: Path) -> None:
    pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate: not installed: make test-chart does"
    )
    schemas(tmp_path, version)
    kubeconform = tool("kubeconform")
    assert kubeconform is not None

    def check(text: str) -> subprocess.CompletedProcess[str]:
        where = f"{tmp_path}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
        command = [kubeconform, "-strict", "-summary", "-schema-location", where]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    for name, values in ALL.items():
        rendered = Rendered(values)
        done = check(rendered.text)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        assert f"Valid: {len(rendered.all)}, Invalid: 0, Errors: 0, Skipped: 0" in done.stdout
    # And it would notice.
    text = Rendered(MOST).text
    for right, wrong in (("hostNetwork", "hostNetworks"), ("podMetricsEndpoints", "podMetricEndpoints")):
        assert check(text.replace(f"{right}:", f"{wrong}:")).returncode == 1, wrong


@pytest.mark.parametrize("values", ALL.values(), ids=ALL)
def test_no_container_may_do_more_than_systemds_units(values: Object) -> None:
    pods = Rendered(values).pods()
    allowed = {"agent": "onrampd", "exporter": "onrampd-exporter", "coordinator": "onrampd-coordinator"}
    for kind, pod in pods.items():
        # Of the host's namespaces only its network.
        assert pod["hostNetwork"] and not pod.get("hostPID") and not pod.get("hostIPC")
        assert pod["automountServiceAccountToken"] is False
        for name, container in containers(pod).items():
            security = container["securityContext"]
            of_unit = unit(allowed[name]) if name in allowed else {"CapabilityBoundingSet": [""]}
            capabilities = {c.removeprefix("CAP_") for c in of_unit["CapabilityBoundingSet"][0].split()}
            assert set(security["capabilities"].get("add", [])) == capabilities, name
            assert security["capabilities"]["drop"] == ["ALL"]
            assert security["privileged"] is False and security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            runs_as = {**pod["securityContext"], **security}
            assert (runs_as["runAsUser"] == 0) == (name in ("agent", "join")), name
            assert runs_as["runAsUser"] == 0 or runs_as["runAsNonRoot"] is True
        hosts = [v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v]
        kept = ["/run/onrampd", "/var/lib/onrampd", "/var/lib/onrampd/history", "/sys/fs/cgroup"]
        assert hosts == (kept if kind == "DaemonSet" else [])


def test_the_agent_is_started_and_watched_as_by_systemd() -> None:
    pod = Rendered(LEAST).pods()["DaemonSet"]
    agent, systemd = containers(pod)["agent"], unit("onrampd")
    assert " ".join(agent["command"]) == systemd["ExecStart"][0]
    alive = agent["livenessProbe"]
    assert str(alive["periodSeconds"] * alive["failureThreshold"]) == systemd["WatchdogSec"][0]
    limit = unit("onrampd-exporter")["MemoryMax"][0]
    assert containers(pod)["exporter"]["resources"]["limits"]["memory"] == f"{limit}i"
    # Whoever asks the agent: its group.
    assert pod["securityContext"]["runAsGroup"] == containers(pod)["exporter"]["securityContext"]["runAsUser"]
    # A node's token and configuration are for what joins, the node's key is for the agent.
    mounts = {name: {m["name"] for m in c["volumeMounts"]} for name, c in containers(pod).items()}
    kept = {"run", "kept", "history", "cgroups"}
    assert mounts == {"join": {"config", "token", "kept"}, "agent": kept, "exporter": {"run"}}
    # What systemd keeps for a service; and the node's cgroups, which nobody changes.
    folder = f"/var/lib/{systemd['StateDirectory'][0]}"
    assert {"name": "STATE_DIRECTORY", "value": folder} in agent["env"]
    paths = {m["name"]: (m["mountPath"], m.get("readOnly", False)) for m in agent["volumeMounts"]}
    assert paths["history"] == (folder, False)
    assert paths["cgroups"] == ("/sys/fs/cgroup", True)


@pytest.mark.parametrize("values", ALL.values(), ids=ALL)
def test_configurations_are_right(values: Object, tmp_path: Path) -> None:
    rendered = Rendered(values)
    maps = [d["data"] for d in rendered.all if d["kind"] == "ConfigMap"]
    texts = {name: text for data in maps for name, text in data.items()}
    nodes = [] if values is ELSEWHERE else NODES
    assert set(texts) == {"onrampd.toml", *(f"{node['name']}.toml" for node in nodes)}
    for name, text in texts.items():
        file = tmp_path / name
        # As onramp-join completes it.
        text = text.replace("@ADDRESS@", "10.9.0.3")
        if values is LABELLED and name == "onrampd.toml":
            text += '"row" = "2"\n'
        file.write_text(text, encoding="utf-8")
        done = onrampctl("check-config", file)
        assert done.returncode == 0, f"{name}: {text}{done.stderr}"
    for node in nodes:
        assert f'address = "{node["address"]}"' in texts[f"{node['name']}.toml"]


def test_mode_and_labels_are_the_policys_unless_they_are_said() -> None:
    least, most = (Rendered(v).one("ConfigMap", "onramp")["data"]["onrampd.toml"] for v in (LEAST, MOST))
    assert "mode" not in least and "labels" not in least
    assert 'mode = "enforce"' in most
    assert most.endswith('\n[fleet.labels]\n"example.org/zone" = "1"\n"rack" = "b7"\n')


def test_only_join_may_ask_the_api_and_only_for_nodes() -> None:
    def with_volume(pod: Object, name: str) -> set[str]:
        return {c for c, spec in containers(pod).items() if name in {m["name"] for m in spec["volumeMounts"]}}

    for values in (v for v in ALL.values() if v is not LABELLED):
        rendered = Rendered(values)
        assert not {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} & set(rendered.kinds())
        assert "serviceAccountToken" not in rendered.text
        assert "NODE_NAME" not in str(rendered.one("DaemonSet"))

    rendered = Rendered(LABELLED)
    role, binding = rendered.one("ClusterRole"), rendered.one("ClusterRoleBinding")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "onramp-onramp"
    [subject] = binding["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "other", "namespace": "onramp"}
    assert rendered.one("ServiceAccount")["metadata"]["name"] == "other"

    assert rendered.text.count("serviceAccountToken:") == 1
    pod = rendered.pods()["DaemonSet"]
    [volume] = [v for v in pod["volumes"] if "projected" in v]
    token, authority = volume["projected"]["sources"]
    assert token == {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}
    assert authority["configMap"]["name"] == "kube-root-ca.crt"
    assert with_volume(pod, volume["name"]) == {"join"}
    join = containers(pod)["join"]
    assert [*join["command"], *join["args"]][4:] == LABELLED["nodeLabels"]
    assert join["env"] == [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]


def test_a_changed_configuration_starts_those_anew_who_read_it() -> None:
    def changed(values: Object) -> set[str]:
        before, after = Rendered(LEAST), Rendered({**LEAST, **values})
        old, new = before.pods(), after.pods()
        assert set(old) == set(new) == {"DaemonSet", "StatefulSet"}
        return {
            kind
            for kind in old
            if before.one(kind)["spec"]["template"] != after.one(kind)["spec"]["template"]
        }

    assert changed({"podMonitor.enabled": True}) == set()
    assert changed({"mode": "enforce"}) == {"DaemonSet"}
    assert changed({"config": {"cut": False}, "gate": {"kind": "bpf"}}) == {"DaemonSet"}
    assert changed({"nodeLabels": ["rack"]}) == {"DaemonSet"}
    assert changed({"fleet.config": {"window": "1s"}}) == {"DaemonSet", "StatefulSet"}


def test_coordinators_are_on_their_nodes_or_not_of_this_chart() -> None:
    rendered = Rendered(LEAST)
    stateful = rendered.one("StatefulSet")["spec"]
    assert stateful["replicas"] == 2 and rendered.one("PodDisruptionBudget")
    pod = stateful["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert [term["matchFields"][0]["values"] for term in terms] == [["node-a"], ["node-b"]]
    assert pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    text = rendered.one("ConfigMap", "onramp")["data"]["onrampd.toml"]
    assert 'coordinators = ["10.9.0.1:9472","10.9.0.2:9472"]' in text

    alone = Rendered({**LEAST, "coordinator.nodes": NODES[:1]})
    assert alone.one("StatefulSet")["spec"]["replicas"] == 1 and "PodDisruptionBudget" not in alone.kinds()

    elsewhere = Rendered(ELSEWHERE)
    assert elsewhere.kinds() == ["ConfigMap", "DaemonSet", "ServiceAccount"]
    text = elsewhere.one("ConfigMap")["data"]["onrampd.toml"]
    assert 'coordinators = ["10.9.0.9:9472","[fd09::9]:9472"]' in text

    sixes = Rendered({**LEAST, "coordinator.nodes": [{"name": "a", "address": "fd09::1"}]})
    assert 'coordinators = ["[fd09::1]:9472"]' in sixes.one("ConfigMap", "onramp")["data"]["onrampd.toml"]


def test_a_pod_monitor_finds_the_exporters_port() -> None:
    assert "PodMonitor" not in Rendered(LEAST).kinds()
    rendered = Rendered(MOST)
    monitor, daemon = rendered.one("PodMonitor"), rendered.one("DaemonSet")
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    ports = [port["name"] for port in containers(daemon["spec"]["template"]["spec"])["exporter"]["ports"]]
    assert ports == [endpoint["port"]]
    labels = daemon["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    coordinators = rendered.one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert not monitor["spec"]["selector"]["matchLabels"].items() <= coordinators.items()


def test_it_is_of_the_programs_version_and_for_kubernetes_1_25_and_newer() -> None:
    assert template(LEAST, OLDEST).returncode == 0
    assert "requires kubeVersion" in template(LEAST, "1.24.0").stderr
    cargo = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    [version] = re.findall(r'^version = "(.*)"$', cargo, re.M)
    assert f"appVersion: {version}\n" in (CHART / "Chart.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mode": "fast"}, "at '/mode': value must be one of '', 'observe', 'enforce'"),
        ({"interfaces": []}, "interfaces: is empty: name the interface"),
        ({"interfaces": ["eth 0"]}, "at '/interfaces/0': 'eth 0' does not match pattern"),
        ({"interface": "eth0"}, "at '': additional properties 'interface' not allowed"),
        ({"coordinator.nodes": []}, "coordinator.nodes: is empty: name the nodes"),
        ({"coordinator.nodes": [{"name": "a"}]}, "at '/coordinator/nodes/0': missing property 'address'"),
        (
            {"coordinator.nodes": [{"name": "a", "address": "a"}]},
            "at '/coordinator/nodes/0/address': 'a' does not match",
        ),
        ({"coordinator.port": 0}, "at '/coordinator/port': minimum: got 0, want 1"),
        ({"fleet.coordinators": ["10.0.0.1:9472"]}, "fleet.coordinators: is given beside coordinator.nodes"),
        (
            {"fleet.coordinators": ["a.example:9472"]},
            "at '/fleet/coordinators/0': 'a.example:9472' does not match",
        ),
        ({"config": {"mode": "enforce"}}, "config.mode: is no key of this chart's"),
        ({"config": {"gate": {"kind": "bpf"}}}, "at '/config/gate': got object, want boolean or number"),
        ({"fleet.config": {"address": "10.9.0.1"}}, "fleet.config.address: is no key of this chart's"),
        (
            {"labels": {"rack": "b7"}, "nodeLabels": ["row", "rack"]},
            "nodeLabels: rack is given in labels, too: keep one of the two",
        ),
        ({"nodeLabels": ["a rack"]}, "at '/nodeLabels/0': 'a rack' does not match pattern"),
        ({"podMonitor.enabled": True, "exporter.enabled": False}, "podMonitor.enabled: scrapes the exporter"),
        ({"agent.maxUnavailable": 0}, "at '/agent/maxUnavailable': minimum: got 0, want 1"),
    ],
)
def test_wrong_values_are_refused_in_a_line(values: Object, said: str) -> None:
    done = template({**LEAST, **values})
    assert done.returncode != 0 and not done.stdout
    assert sum(said in line for line in done.stderr.splitlines()) == 1, done.stderr


def test_kubernetes_takes_the_labs_workers() -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    yaml = pytest.importorskip("yaml")
    objects = list(yaml.safe_load_all((ROOT / "docs/machines/kubernetes.yaml").read_text(encoding="utf-8")))
    assert [one["kind"] for one in objects] == ["Namespace", "Service", "Deployment", "Deployment"]
    for one in objects:
        validate(one, "1.37", strict=True)
