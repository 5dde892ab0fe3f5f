"""Manifests for Kubernetes and the unit for systemd: rights, probes, limits, and that parts fit.

`make check-deploy` compares them with the schemas of Kubernetes and asks systemd.
"""

import configparser
import json
import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.extra

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
}
DEPLOYMENT = MANIFESTS["deployment.yaml"]
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
VARIABLES = {item["name"]: item["value"] for item in CONTAINER["env"]}


def test_all_manifests_but_the_example_are_applied():
    listed = MANIFESTS["kustomization.yaml"]["resources"]
    assert {*listed, "kustomization.yaml", "secret.example.yaml"} == set(MANIFESTS)


def test_the_pod_has_no_rights():
    assert POD["automountServiceAccountToken"] is False
    assert POD["securityContext"]["runAsNonRoot"] is True
    user = f"USER {POD['securityContext']['runAsUser']}:{POD['securityContext']['runAsGroup']}"
    assert user in (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_probes_ask_for_life_and_for_readiness():
    paths = {
        kind: CONTAINER[kind]["httpGet"]["path"]
        for kind in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert paths == {
        "startupProbe": "/readyz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",  # an overloaded service is not ready, and must not be killed
    }


def test_memory_is_limited_and_the_autoscaler_has_what_it_divides_by():
    assert CONTAINER["resources"]["limits"] == {"memory": "2Gi"}
    assert set(CONTAINER["resources"]["requests"]) == {"cpu", "memory"}
    scaler = MANIFESTS["autoscaler.yaml"]["spec"]
    target = {key: DEPLOYMENT[key] for key in ("apiVersion", "kind")}
    assert scaler["scaleTargetRef"] == target | {"name": DEPLOYMENT["metadata"]["name"]}
    assert "replicas" not in DEPLOYMENT["spec"]  # each apply would undo the autoscaler's number
    assert MANIFESTS["disruption.yaml"]["spec"]["minAvailable"] < scaler["minReplicas"]


def test_selectors_find_the_pods():
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["service.yaml"]["spec"]["selector"] == labels
    assert MANIFESTS["disruption.yaml"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["network.yaml"]["spec"]["podSelector"]["matchLabels"] == labels
    (port,) = CONTAINER["ports"]
    assert MANIFESTS["service.yaml"]["spec"]["ports"][0]["targetPort"] == port["name"]
    assert MANIFESTS["network.yaml"]["spec"]["ingress"][0]["ports"][0]["port"] == port["name"]
    assert f"EXPOSE {port['containerPort']}" in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def test_files_that_are_named_stand_on_a_mounted_volume():
    mounts = {mount["mountPath"]: mount for mount in CONTAINER["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert {mount["name"] for mount in mounts.values()} == set(volumes)
    for variable in ("LOCUSCORE_ARCHIVE", "LOCUSCORE_KEYS"):
        folder = str(Path(VARIABLES[variable]).parent)
        assert mounts[folder]["readOnly"] is True
        assert "subPath" not in mounts[folder]  # new keys and archives would not arrive
    claim = volumes["archives"]["persistentVolumeClaim"]["claimName"]
    assert claim == MANIFESTS["archives.yaml"]["metadata"]["name"]
    example = MANIFESTS["secret.example.yaml"]
    assert volumes["keys"]["secret"]["secretName"] == example["metadata"]["name"]
    assert Path(VARIABLES["LOCUSCORE_KEYS"]).name in example["stringData"]


def test_the_example_of_keys_lets_nobody_in():
    keys = json.loads(MANIFESTS["secret.example.yaml"]["stringData"]["keys.json"])["keys"]
    assert {role for key in keys for role in key["roles"]} == {"score", "metrics", "reload"}
    for key in keys:
        assert set(key) == {"name", "sha256", "roles"}
        assert re.fullmatch(r"0{63}\d", key["sha256"])


def unit():
    reader = configparser.RawConfigParser(strict=False, interpolation=None)
    reader.optionxform = str
    reader.read(DEPLOY / "systemd" / "locuscore.service", encoding="utf-8")
    return reader["Service"]


def settings_file():
    text = (DEPLOY / "systemd" / "locuscore.env").read_text(encoding="utf-8")
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


def test_there_is_time_to_finish_requests():
    wait = ("LOCUSCORE_DRAIN_SECONDS", "LOCUSCORE_SHUTDOWN_SECONDS")
    assert sum(int(VARIABLES[name]) for name in wait) < POD["terminationGracePeriodSeconds"]
    there = settings_file()
    assert sum(int(there[name]) for name in wait) < int(unit()["TimeoutStopSec"])


def test_the_unit_runs_the_service_without_rights():
    service = unit()
    assert service["ExecStart"].endswith("/locuscore serve")
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    account = (DEPLOY / "systemd" / "locuscore.sysusers.conf").read_text(encoding="utf-8")
    assert re.search(rf"^u {service['User']} ", account, re.MULTILINE)
    assert service["CapabilityBoundingSet"] == ""
    assert service["ProtectSystem"] == "strict"
    assert service["NoNewPrivileges"] == "yes"
