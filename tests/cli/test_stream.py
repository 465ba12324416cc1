"""`wildcal stream`: rows in, rows out, live in a pipe; alarms, state and bad rows."""

import io
import json
import signal
import subprocess
import sys

import numpy as np
import pytest

import wildcal
from wildcal._old.calibrators.context import ContextScaling
from wildcal.cli.main import run
from wildcal._old.evaluation import environments
from wildcal._old.io import save

SUITE = wildcal._old.suites.load("cifar10-resnet20")
CLEAN, FOGGY = SUITE.split("test").logits, SUITE.split("fog-5").logits
KEYS = (
    "class confidence temperature estimated_accuracy estimated_accuracy_low"
    " estimated_accuracy_high drift alarm"
).split()


@pytest.fixture(scope="module")
def calibrator():
    rows = environments(SUITE)
    return ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)


@pytest.fixture
def folder(tmp_path, monkeypatch, calibrator):
    save(calibrator, tmp_path / "context.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stream(folder, monkeypatch, capsys):
    """Run the command on bytes; return its exit code, its lines and what it said."""

    def call(data, *options):
        if isinstance(data, str):
            data = data.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = run(["stream", "context.json", *options])
        out, err = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return call


def json_lines(logits):
    return "".join(json.dumps(row) + "\n" for row in np.asarray(logits, np.float64).tolist())


def npy(*arrays):
    file = io.BytesIO()
    for array in arrays:
        np.save(file, array)
    return file.getvalue()


def test_a_line_for_each_row(stream, calibrator):
    z = CLEAN[:300].astype(np.float64)
    code, lines, err = stream(json_lines(z))
    assert (code, err) == (0, "300 rows in the stream.\n")
    rows = wildcal.Stream(calibrator).read(z)
    columns = (
        rows.pred,
        rows.confidence,
        rows.temperature,
        rows.accuracy,
        rows.accuracy_low,
        rows.accuracy_high,
        rows.drift,
        rows.alarm,
    )
    expected = [
        dict(zip(KEYS, v, strict=True)) for v in zip(*(c.tolist() for c in columns), strict=True)
    ]
    assert lines == expected


def test_objects_keep_their_other_fields(stream):
    text = json.dumps({"id": "a7", "logits": CLEAN[0].tolist(), "tags": [1, {"x": None}]})
    code, (line,), _ = stream(text)  # also without a newline at the end
    assert code == 0
    assert list(line) == ["id", "tags", *KEYS]
    assert (line["id"], line["tags"]) == ("a7", [1, {"x": None}])


def test_proba(stream, calibrator):
    z = CLEAN[:20].astype(np.float64)
    _, lines, _ = stream(json_lines(z), "--proba", "--window", "7")
    expected = wildcal.Stream(calibrator, 7)(z)
    np.testing.assert_array_equal([line["proba"] for line in lines], expected)


def test_npy_arrays_one_after_the_other(stream, calibrator):
    z = CLEAN[:700]
    data = npy(z[:1], z[1:1], z[1:500].astype(np.float64), z[500:])
    code, lines, _ = stream(data, "--format", "npy")
    assert code == 0
    expected = wildcal.Stream(calibrator).read(z).confidence
    np.testing.assert_allclose([line["confidence"] for line in lines], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "it is not JSON."),
        ("[1, 2", "it is not JSON."),
        ("\xff", "it is not JSON."),
        ("3", "logits must be a list of 10 numbers."),
        ('"abc"', "logits must be a list of 10 numbers."),
        ("[[1, 2]]", "logits must be a list of 10 numbers."),
        ('["1", 2, 3, 4, 5, 6, 7, 8, 9, 10]', "logits must be a list of 10 numbers."),
        ("[true, 2, 3, 4, 5, 6, 7, 8, 9, 10]", "logits must be a list of 10 numbers."),
        ("[1, 2, 3]", "logits must be 10 numbers, as in fit, got 3."),
        ('{"scores": [1]}', 'an object must have "logits".'),
        ("[NaN, 2, 3, 4, 5, 6, 7, 8, 9, 10]", "logits must be finite."),
        ("[1e999, 2, 3, 4, 5, 6, 7, 8, 9, 10]", "logits must be finite."),
        (f"[1{'0' * 400}, 2, 3, 4, 5, 6, 7, 8, 9, 10]", "logits must be finite."),
        ("[" * 100_000, "it is not JSON."),
        (f'{{"t": 1e999, "logits": {list(range(10))}}}', "its other fields must be finite."),
        (f'{{"logits": {list(range(10))}, "t": [NaN]}}', "its other fields must be finite."),
    ],
    ids=lambda text: text[:20],
)
def test_a_bad_line(stream, line, problem):
    good = json_lines(CLEAN[:3])
    data = (good + "\n").encode() + line.encode("latin-1") + b"\n" + good.encode()
    code, lines, err = stream(data)
    assert (code, len(lines)) == (1, 3)
    assert err.startswith(f"error: line 5: {problem}")
    assert err.endswith("--skip-bad leaves such rows out.\n")
    assert err.count("\n") == 1
    code, lines, err = stream(data, "--skip-bad")
    assert (code, len(lines)) == (0, 6)
    assert err.startswith(f"skipped line 5: {problem}")
    assert err.endswith("\n6 rows in the stream; bad rows skipped: 1.\n")


def test_classes_ruled_out_are_no_bad_row(stream):
    code, lines, _ = stream("[-Infinity, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n")
    assert (code, lines[0]["class"]) == (0, 9)


def test_bad_rows_of_an_array(stream):
    z = CLEAN[:30].copy()
    z[[4, 5, 29]] = np.nan
    code, lines, err = stream(npy(CLEAN[:2], z), "--format", "npy")
    assert (code, len(lines)) == (1, 6)
    assert err.startswith("error: array 2, row 4: logits must be finite.")
    code, lines, err = stream(npy(CLEAN[:2], z), "--format", "npy", "--skip-bad")
    assert (code, len(lines)) == (0, 29)
    assert err.count("skipped array 2, row") == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"nonsense",
            "array 1 of the input is not a .npy array: it does not begin as a .npy file.",
        ),
        (npy(CLEAN[:5])[:40], "array 1 of the input is not a .npy array: it is cut short."),
        (npy(CLEAN[:5])[:-1], "array 1 is cut short after 4 of 5 rows."),
        (npy(CLEAN[:5, :4]), "array 1 must have shape (rows, 10), as in fit, got (5, 4)."),
        (npy(CLEAN[0]), "array 1 must have shape (rows, 10), as in fit, got (10,)."),
        (npy(CLEAN[:5].astype(int)), "array 1 must be of float16, 32 or 64, got '<i8'."),
        (npy(CLEAN[:5]).replace(b"(5, 10)", b"(10**9, 10)"), "array 1 of the input is not a .npy"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_input_that_is_no_npy(stream, data, message):
    code, _, err = stream(data, "--format", "npy", "--skip-bad")
    assert code == 1
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_a_header_that_claims_too_much_takes_no_memory(stream):
    data = npy(CLEAN[:5]).replace(b"(5, 10), } " + b" " * 12, b"(900000000000, 10), } " + b" ")
    code, lines, err = stream(data, "--format", "npy")
    assert (code, len(lines)) == (1, 5)
    assert "array 1 is cut short after 5 of 900000000000 rows." in err


def test_probabilities_are_refused(stream):
    code, _, err = stream(json_lines(np.full((20, 10), 0.1)))
    assert code == 1
    assert err.startswith("error: lines 1 to 20: logits must be raw scores")


def test_alert_print(stream):
    z = np.concatenate([CLEAN[:512], FOGGY[:512], CLEAN[512:1024]])
    code, lines, err = stream(json_lines(z), "--alert", "print", "--alarm", "window")
    assert (code, len(lines)) == (0, 1536)
    first, second, _ = err.splitlines()
    assert first.startswith("alarm at row 768: drift ")
    assert second.startswith("clean again at row 1,280: drift ")
    assert "estimated accuracy" in first


def test_alert_exit_comes_at_the_row_of_the_alarm(stream, folder):
    z = np.concatenate([CLEAN[:300], FOGGY[:1000]])
    options = "--alert exit --state state.json --alarm window".split()
    code, lines, err = stream(json_lines(z), *options)
    assert (code, len(lines)) == (3, 512)
    assert [line["alarm"] for line in lines] == [False] * 511 + [True]
    assert err.startswith("alarm at row 512: drift ")
    assert json.loads((folder / "state.json").read_text())["seen"] == 512


def test_no_alarm_without_alert(stream):
    code, _, err = stream(json_lines(FOGGY[:600]))
    assert (code, err) == (0, "600 rows in the stream.\n")


def test_false_alarms_sets_the_threshold(stream):
    z = json_lines(FOGGY[:300])
    _, strict, _ = stream(z, "--alarm", "window", "--false-alarms", "0.000001")
    easy = ("--alarm", "window", "--false-alarms", "0.99")
    _, easy, _ = stream(json_lines(CLEAN[:300]), *easy)
    assert strict[-1]["alarm"]
    assert easy[-1]["alarm"]


def test_a_state_goes_on(stream):
    z = np.concatenate([CLEAN[:200], FOGGY[:200]])
    _, whole, _ = stream(json_lines(z), "--window", "64")
    first = stream(json_lines(z[:150]), "--window", "64", "--state", "state.json")
    second = stream(json_lines(z[150:]), "--state", "state.json")
    assert first[1] + second[1] == whole
    assert second[2] == "Going on after row 150 of state.json.\n400 rows in the stream.\n"


def test_a_state_of_another_window(stream):
    stream(json_lines(CLEAN[:10]), "--window", "64", "--state", "state.json")
    code, lines, err = stream(json_lines(CLEAN[:10]), "--window", "65", "--state", "state.json")
    assert (code, lines) == (2, [])
    assert "state.json has a window of 64 rows, got --window 65." in err


def test_a_damaged_state_is_refused_and_kept(stream, folder):
    (folder / "state.json").write_text("{")
    code, lines, err = stream(json_lines(CLEAN[:10]), "--state", "state.json")
    assert (code, lines) == (1, [])
    assert err.startswith("error: state.json is not a whole JSON file")
    assert (folder / "state.json").read_text() == "{"


def test_a_bad_line_keeps_the_state(stream, folder):
    code, *_ = stream(json_lines(CLEAN[:10]) + "x\n", "--state", "state.json")
    assert code == 1
    assert json.loads((folder / "state.json").read_text())["seen"] == 10


def test_no_rows(stream):
    assert stream("") == (0, [], "0 rows in the stream.\n")
    assert stream("\n\n", "--window", "3") == (0, [], "0 rows in the stream.\n")
    assert stream("", "--format", "npy") == (0, [], "0 rows in the stream.\n")


def test_another_method_is_refused(stream, folder):
    scaled = wildcal.TemperatureScaling().fit(CLEAN, SUITE.split("test").y)
    wildcal.save(scaled, folder / "context.json")
    code, _, err = stream("")
    assert code == 1
    assert err == (
        "error: context.json holds temperature scaling; a stream needs a calibrator made by"
        " `wildcal fit --method context`.\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--window", "0"], "error: window must be a whole number from 1 to 100000, got 0."),
        (["--false-alarms", "0"], "error: false_alarms must be a number"),
        (["--state", "no/state.json"], "error: cannot write no/state.json"),
    ],
)
def test_options_are_checked(stream, options, message):
    code, lines, err = stream(json_lines(CLEAN[:3]), *options)
    assert (code, lines) == (1, [])
    assert err.startswith(message)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_live_in_a_pipe(folder, how):
    """A line is answered before the next one comes; a signal saves the state."""
    command = [sys.executable, "-m", "wildcal", "stream", "context.json", "--state", "state.json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        for row in CLEAN[:5].tolist():
            process.stdin.write(json.dumps(row).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["alarm"] is False
        process.send_signal(how)
        assert process.wait(timeout=60) == 128 + how
        assert process.stderr.read().strip() == b"interrupted; no unfinished file was left."
    assert json.loads((folder / "state.json").read_text())["seen"] == 5


def test_save_every_rows(stream, folder, monkeypatch):
    saved = []
    monkeypatch.setattr(
        wildcal.Stream, "save", lambda self, path: saved.append((self.seen, path.name))
    )
    # Batches end where --alert exit looks, every 64 rows.
    options = "--window 64 --alarm window --alert exit --state state.json --save-every 100".split()
    code, *_ = stream(json_lines(CLEAN[:400]), *options)
    assert code == 0
    assert [seen for seen, _ in saved] == [128, 256, 384, 400]
    code, _, err = stream(json_lines(CLEAN[:1]), "--save-every", "1s")
    assert (code, "--save-every needs --state" in err) == (2, True)
    code, _, err = stream(json_lines(CLEAN[:1]), "--state", "s.json", "--save-every", "1h")
    assert (code, "give seconds such as 10s" in err) == (2, True)


def test_merge(stream, folder, capsys):
    stream(json_lines(CLEAN[:300]), "--state", "a.json")
    stream(json_lines(FOGGY[:300]), "--state", "b.json")
    assert run(["merge", "context.json", "a.json", "b.json", "-o", "both.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["window"], found["drift"]["alarm"]) == (600, 512, True)
    assert run(["merge", "context.json", "a.json"]) == 0
    assert capsys.readouterr().out.startswith("256 rows of 1 windows: estimated accuracy ")
    code, _, err = stream(json_lines(CLEAN[:10]), "--state", "both.json")
    assert (code, err.splitlines()[0]) == (0, "Going on after row 600 of both.json.")


def test_the_same_window_is_not_merged_twice_without_a_word(stream, folder, capsys):
    stream(json_lines(CLEAN[:30]), "--state", "a.json")
    assert run(["merge", "context.json", "a.json", "./a.json"]) == 2
    assert "a.json is given twice. Give the window of each replica once." in capsys.readouterr().err
    (folder / "copy.json").write_bytes((folder / "a.json").read_bytes())
    assert run(["merge", "context.json", "a.json", "copy.json"]) == 0
    said = "warning: copy.json and a.json hold the same rows, which count twice. A copy?\n"
    assert capsys.readouterr().err == said


def test_one_line_for_many_rows(stream, calibrator):
    z = np.concatenate([CLEAN[:300], FOGGY[:300]])
    text = "".join(
        json.dumps({"t": i, "logits": row.tolist()}) + "\n" for i, row in enumerate(z.astype(float))
    )
    code, lines, _ = stream(text, "--every", "250", "--time", "t")
    assert code == 0
    rows = wildcal.Stream(calibrator).read(z.astype(float))
    assert [(line["row"], line["rows"]) for line in lines] == [(250, 250), (500, 250), (600, 100)]
    assert [(line["time_first"], line["time_last"]) for line in lines] == [
        (0, 249),
        (250, 499),
        (500, 599),
    ]
    for line, part in zip(lines, (slice(0, 250), slice(250, 500), slice(500, 600)), strict=True):
        assert line["confidence"] == pytest.approx(rows.confidence[part].mean(), rel=1e-14)
        assert line["drift"] == rows.drift[part][-1]
        assert line["alarm"] == rows.alarm[part].any()
    code, _, err = stream(text, "--every", "2", "--proba")
    assert (code, "exclude each other" in err) == (2, True)


def test_time_of_the_clock(stream, monkeypatch):
    monkeypatch.setattr("wildcal._old.cli.stream_output.time.time", lambda: 1234.5)
    _, lines, _ = stream(json_lines(CLEAN[:2]), "--time", "clock")
    assert [line["time"] for line in lines] == [1234.5, 1234.5]


def test_metrics_file(stream, folder, calibrator):
    code, *_ = stream(json_lines(CLEAN[:300]), "--metrics-file", "wildcal.prom")
    assert code == 0
    text = (folder / "wildcal.prom").read_text()
    ours = wildcal.Stream(calibrator)
    ours.read(CLEAN[:300].astype(np.float64))
    numbers = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
    assert numbers["wildcal_stream_rows"] == "300.0"
    assert float(numbers["wildcal_stream_drift"]) == ours.drift.score
    assert float(numbers["wildcal_stream_estimated_accuracy"]) == ours.estimated_accuracy.value


def test_on_alarm(stream, folder):
    code = "import pathlib, sys; pathlib.Path('told').write_text(sys.stdin.read())"
    command = f'{sys.executable} -c "{code}"'
    z = np.concatenate([CLEAN[:300], FOGGY[:300]])
    assert stream(json_lines(z), "--on-alarm", command)[0] == 0
    told = json.loads((folder / "told").read_text())
    assert 300 < told["row"] < 350
    assert told["alarm"]
    code, lines, err = stream(json_lines(z), "--on-alarm", "nothing-of-this-name")
    assert (code, len(lines)) == (0, 600)
    assert "warning: nothing-of-this-name could not be told of the alarm" in err


def test_the_sequential_alarm(stream, calibrator, folder):
    z = np.concatenate([CLEAN[:300], FOGGY[:300]]).astype(np.float64)
    rows = wildcal.Stream(calibrator, alarm="sequential", false_alarms_per_100k=2.0).read(z)
    first = int(rows.alarm.argmax()) + 1
    options = "--alarm sequential --false-alarms-per-100k 2 --alert exit --state s.json".split()
    code, lines, err = stream(json_lines(z), *options)
    assert (code, len(lines)) == (3, first)
    assert err.startswith(f"alarm at row {first}: drift ")
    assert first < 360
    # The state knows how alarms are decided.
    _, lines, _ = stream(json_lines(z[first:]), "--state", "s.json")
    assert [line["alarm"] for line in lines] == rows.alarm[first:].tolist()
