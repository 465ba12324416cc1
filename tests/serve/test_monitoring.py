"""What a monitor reads: `/metrics`, the rules, the dashboard, and who is told of an alarm."""

import json
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import wildcal
from wildcal._old.serve.lane import Lane
from wildcal._old.serve.metrics import STREAM_GAUGES, Metrics
from wildcal._old.serve.recent import Recent
from wildcal._old.stream.hook import Hook

EXAMPLES = Path(__file__).parents[2] / "examples" / "monitoring"


class Receiver(BaseHTTPRequestHandler):
    """Takes what is posted to it."""

    def do_POST(self):
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        server.got = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_of_a_server(start, receiver, context, clean, foggy):
    """A shift in one stream rings its alarm, and the operator is told."""
    url = f"http://127.0.0.1:{receiver.server_port}/alarm"
    server = start("context.json", "--on-alarm", url)
    hostile = 'a"b\\c<script>'
    server.infer(clean.logits[:256])
    server.infer(foggy.logits[:512], stream=hostile)
    server.infer(clean.logits[0], stream=hostile)  # a row that is no matrix
    found = samples(server.get("/metrics").decode())
    ours = wildcal.Stream(context, alarm="sequential")
    ours.read(foggy.logits[:512])

    def of(name, stream):
        return found[f"wildcal_stream_{name}", ("model", "context"), ("stream", stream)]

    assert of("alarm", "default") == 0
    assert of("alarm", hostile) == 1
    assert of("estimated_accuracy", hostile) == pytest.approx(ours.estimated_accuracy.value)
    assert of("estimated_accuracy_low", hostile) == pytest.approx(ours.estimated_accuracy.low)
    assert of("drift", hostile) == pytest.approx(ours.drift.score)
    assert of("rows_since_alarm", hostile) == 512 - of_alarm(ours, foggy)
    assert found["wildcal_rows_total", ("model", "context")] == 768
    assert found["wildcal_requests_total", ("model", "context"), ("status", "200")] == 2
    assert found["wildcal_requests_total", ("model", "context"), ("status", "400")] == 1
    assert found["wildcal_request_seconds_count", ("model", "context")] == 3
    server.stop()
    (event,) = receiver.got
    assert (event["stream"], event["row"]) == (hostile, of_alarm(ours, foggy))
    assert event["alarm"] is True


def of_alarm(stream, split):
    """The row of the first alarm among 512 foggy ones."""
    rows = wildcal.Stream(stream.calibrator, alarm="sequential").read(split.logits[:512])
    return int(rows.alarm.argmax()) + 1


def test_the_number_of_series_is_bounded():
    lanes = [Lane("m", f"s{i}", None, rows=1, recent=Recent(0.5)) for i in range(30)]
    metrics = Metrics(lambda: lanes, most_streams=10)
    for _ in range(2):
        lanes.reverse()  # others come first, and still have no series of their own
        found = samples(metrics.text().decode())
        rows = [key for key in found if key[0] == "wildcal_stream_rows"]
        assert len(rows) == 10
        assert found[("wildcal_streams",)] == 30


def test_a_command_is_told_on_its_standard_input(tmp_path):
    out = tmp_path / "got.json"
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())"
    hook = Hook(f"{sys.executable} -c '{code}' {out}")
    hook.tell({"stream": "$(rm -rf x); '\"", "row": 3})
    assert json.loads(out.read_text()) == {"stream": "$(rm -rf x); '\"", "row": 3}
    with pytest.raises(OSError, match="exit code 1"):
        Hook(f"{sys.executable} -c 'raise SystemExit(1)'").tell({})
    with pytest.raises(OSError, match="nothing-of-this-name"):
        Hook("nothing-of-this-name").tell({})
    with pytest.raises(ValueError, match="must be given"):
        Hook(" ")


def known_names():
    metrics = Metrics(lambda: [])
    metrics.of("m").request(200, 0.1)
    found = {key[0] for key in samples(metrics.text().decode())}
    return found | {f"wildcal_stream_{name}" for name in STREAM_GAUGES}


@pytest.mark.parametrize("name", ["grafana.json", "alerts.yml"])
def test_examples_ask_for_what_is_there(name):
    text = (EXAMPLES / name).read_text()
    asked = set(re.findall(r"\bwildcal_\w+", text))
    assert asked
    assert asked <= known_names()


def test_the_dashboard_is_a_dashboard():
    board = json.loads((EXAMPLES / "grafana.json").read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids) == 8
    assert all(target["expr"] for panel in board["panels"] for target in panel["targets"])


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed")
def test_hadolint_agrees():
    file = EXAMPLES.parents[1] / "Dockerfile"
    found = subprocess.run(["hadolint", file], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("words", [("rules", "alerts.yml"), ("config", "prometheus.yml")])
def test_promtool_agrees(words):
    kind, name = words
    done = subprocess.run(
        ["promtool", "check", kind, EXAMPLES / name], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
