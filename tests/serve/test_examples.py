"""Files of examples/serve: syntax, and names of metrics and options."""

import configparser
import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

KIT = Path(__file__).parents[2] / "examples" / "serve"


@pytest.fixture(scope="module")
def series(start, draw):
    """Names of the series of a server with a plain calibrator and one request."""
    server = start("ts.json")
    server.infer(draw(30)[0])
    text = server.get("/metrics").decode()
    found = {s.name for family in text_string_to_metric_families(text) for s in family.samples}
    assert {
        *("wildcal_samples_total", "wildcal_request_duration_seconds_bucket"),
        *("wildcal_estimated_accuracy", "wildcal_accuracy_at_calibration", "wildcal_drift_alert"),
    } <= found
    return found


def names(text):
    return set(re.findall(r"\bwildcal_\w+", text))


def test_alert_rules(series):
    document = yaml.safe_load((KIT / "alerts.yaml").read_text())
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) == 7
    of_labels = {"wildcal_realized_accuracy", "wildcal_labels", "wildcal_not_calibrated"}
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert names(rule["expr"]) <= series | of_labels, rule


def test_dashboard_has_no_empty_panel(series):
    document = json.loads((KIT / "grafana" / "dashboard.json").read_text())
    for panel in document["panels"]:
        for target in panel["targets"]:
            # One side of an `or` must have data.
            parts = [names(part) for part in target["expr"].split(" or ")]
            assert any(part and part <= series for part in parts), panel["title"]
    for variable in document["templating"]["list"]:
        assert names(variable["definition"]) <= series
    uid = yaml.safe_load((KIT / "grafana" / "datasource.yaml").read_text())["datasources"][0]["uid"]
    assert {panel["datasource"]["uid"] for panel in document["panels"]} == {uid}


def test_compose_mounts_files_that_exist():
    services = yaml.safe_load((KIT / "compose.yaml").read_text())["services"]
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            if source.startswith("./") and source != "./calibrator.json":
                assert (KIT / source).exists(), source
    scraped = yaml.safe_load((KIT / "prometheus.yaml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["wildcal:8000"]
    assert services["wildcal"]["command"][-2:] == ["--allow-host", "wildcal"]
    dockerfile = Path(KIT, services["wildcal"]["build"]["context"], "examples/serve/Dockerfile")
    assert dockerfile.resolve() == (KIT / "Dockerfile").resolve()


def test_the_scrape_of_kubernetes_sends_a_token():
    documents = list(yaml.safe_load_all((KIT / "kubernetes.yaml").read_text()))
    found = {document["kind"]: document for document in documents}
    (container,) = found["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert "--token-file" in container["args"]
    (endpoint,) = found["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"]["name"] == "wildcal-tokens"
    assert endpoint["port"] == found["Service"]["spec"]["ports"][0]["name"]
    labels = found["Service"]["metadata"]["labels"]
    assert found["ServiceMonitor"]["spec"]["selector"]["matchLabels"] == labels


@pytest.mark.parametrize("file", ["wildcal.service", "kubernetes.yaml", "compose.yaml"])
def test_options_of_commands_exist(file):
    from wildcal.cli.serve import serve

    known = {name for param in serve.params for name in param.opts}
    text = "\n".join(
        line for line in (KIT / file).read_text().splitlines() if not line.startswith("#")
    )
    assert set(re.findall(r"--[a-z][a-z-]*", text)) - {"--config"} <= known


def test_unit():
    unit = configparser.ConfigParser()
    unit.optionxform = str
    unit.read(KIT / "wildcal.service")
    assert unit.sections() == ["Unit", "Service", "Install"]
    assert "wildcal serve" in unit["Service"]["ExecStart"]
