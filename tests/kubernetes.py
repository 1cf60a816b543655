"""The Helm chart, rendered, and the schemas that its objects are held to."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CHART = ROOT / "packaging" / "helm" / "onramp"
#: The oldest that the chart is for (Chart.yaml), and the newest that there are schemas of.
OLDEST, NEWEST = "1.25.0", "1.37.0"
#: The Prometheus Operator's types; its schema is made from them, as its own is.
OPERATOR = "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring@v0.95.2"

#: What a parsed YAML or JSON file has.
Object = dict[str, Any]


def _gopath() -> str:
    go = shutil.which("go")
    if go is None:
        return ""
    return subprocess.run([go, "env", "GOPATH"], capture_output=True, text=True, check=True).stdout.strip()


GO_PROGRAMS = f"{_gopath()}/bin"


def tool(name: str) -> str | None:
    """Where a program is that packaging/need installs, if it is."""
    return shutil.which(name) or shutil.which(name, path=GO_PROGRAMS)


def needs(*tools: str) -> pytest.MarkDecorator:
    """Skip where one of these programs is not installed."""
    missing = [name for name in tools if tool(name) is None]
    reason = f"{', '.join(missing)}: not installed: make test-chart does"
    return pytest.mark.skipif(bool(missing), reason=reason)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """How a call of helm ended."""
    program = tool("helm")
    assert program is not None
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def given(values: Object) -> list[str]:
    """Return helm's arguments for some values."""
    return [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]


def template(values: Object, version: str = NEWEST) -> subprocess.CompletedProcess[str]:
    """How helm renders the chart with some values, in release and namespace onramp."""
    options = ["--namespace=onramp", f"--kube-version={version}"]
    return helm("template", "onramp", CHART, *options, *given(values))


class Rendered:
    """The objects of a rendered chart."""

    def __init__(self, values: Object) -> None:
        import yaml

        done = template(values)
        assert done.returncode == 0, done.stderr
        self.text = done.stdout
        self.all: list[Object] = [document for document in yaml.safe_load_all(self.text) if document]

    def kinds(self) -> list[str]:
        """The kinds of all objects, sorted."""
        return sorted(document["kind"] for document in self.all)

    def one(self, kind: str, name: str | None = None) -> Object:
        """The object of a kind, and of a name if there are several."""
        [found] = [d for d in self.all if d["kind"] == kind and name in (None, d["metadata"]["name"])]
        return found

    def pods(self) -> dict[str, Object]:
        """What the pods are to be, by the kind of object that makes them."""
        made = {d["kind"]: d["spec"]["template"]["spec"] for d in self.all if "template" in d.get("spec", {})}
        return dict(made)


def containers(pod: Object) -> dict[str, Object]:
    """A pod's containers by name, those that run first included."""
    return {c["name"]: c for c in [*pod.get("initContainers", []), *pod["containers"]]}


def schemas(folder: Path, version: str) -> None:
    """Write JSON schemas for kubeconform, strict ones: an object's unknown keys are mistakes."""
    import kubernetes_validate

    bundled = (
        Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v{version}-local-strict"
    )
    for source in bundled.glob("*.json"):
        schema = json.loads(
            source.read_text(encoding="utf-8").replace('"/api/_definitions.json#', '"_definitions.json#')
        )
        # By which references would be looked for elsewhere.
        schema.pop("$id", None)
        (folder / source.name).write_text(json.dumps(schema), encoding="utf-8")
    definition = _pod_monitor(folder)
    (folder / "podmonitor-monitoring-v1.json").write_text(json.dumps(_strict(definition)), encoding="utf-8")


def _pod_monitor(folder: Path) -> Object:
    import yaml

    got = subprocess.run(
        ["go", "mod", "download", "-json", OPERATOR], capture_output=True, text=True, check=True
    )
    types = folder / "types"
    # The module cache is not to be written.
    subprocess.run(["cp", "-r", "--no-preserve=mode", json.loads(got.stdout)["Dir"], types], check=True)
    program = tool("controller-gen")
    assert program is not None
    subprocess.run([program, "crd", "paths=./v1", f"output:crd:dir={folder}"], cwd=types, check=True)
    text = (folder / "monitoring.coreos.com_podmonitors.yaml").read_text(encoding="utf-8")
    schema: Object = yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _strict(schema: Any) -> Any:
    """Return the same, refusing keys that it does not have."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        strict.setdefault("additionalProperties", False)
    return strict
