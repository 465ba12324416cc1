"""Tables of single sets: 3 (detection) and 7 (ImageNet's kin)."""

from typing import Final

from wildcal._old.evaluation.protocol import Results
from wildcal._old.io.suite import Suite
from wildcal._old.report.average_tables import SUITE_WORDS
from wildcal._old.report.model import Cell, Made, MissingInputs, Row, TableArtifact
from wildcal._old.report.names import KEEP_CLASSES, METHOD_TITLES, set_title
from wildcal._old.report.study import PAPER, Study, knowledge, troubles

TEXTURES_NEEDED: Final = (
    "a suite with a clean test split, tuning rows of SVHN and test rows of Textures"
)
TEXTURES_COMMAND: Final = (
    "wildcal extract DATA --network NETWORK.safetensors --ood svhn --ood textures -o SUITE"
)
DETECTION: Final = {"ood_auroc": "AUROC", "ood_aupr_in": "AUPR-IN", "ood_aupr_out": "AUPR-OUT"}
KIN: Final = ("imagenet-r", "imagenet-a", "imagenet-sketch")
_TITLES: Final = tuple(METHOD_TITLES[method] for method in KEEP_CLASSES)


def record_cell(results: Results, suite: str, method: str, split: str, metric: str) -> Cell | None:
    """Return one number of the tidy table; None where the method failed or the split is absent."""
    try:
        record = results.record(suite, method, split, metric)
    except KeyError:
        return None
    return Cell(record.value, record.low, record.high, record.floor, knew=record.knew.words())


def table3(study: Study) -> Made:
    """Return how well confidence tells clean test rows from Textures."""
    title = "Table 3: detection of Textures by the calibrated confidence"
    results = study.results("svhn")
    rows = []
    for suite in results.suites:
        for metric, word in DETECTION.items():
            cells = tuple(
                record_cell(results, suite, method, "textures-test", metric)
                for method in KEEP_CLASSES
            )
            if any(cells):
                labels = (*study.labels[suite], word)
                rows.append(Row(suite, labels, cells, higher_is_better=True))
    if not rows:
        left_out = tuple(troubles(results, KEEP_CLASSES))
        return MissingInputs("table3", title, TEXTURES_NEEDED, TEXTURES_COMMAND, left_out)
    notes = (
        "Clean test rows against as many rows of Textures, in percent; higher is better.",
        *knowledge(study, results, KEEP_CLASSES, [row.suite for row in rows]),
        *troubles(results, KEEP_CLASSES),
    )
    return TableArtifact("table3", title, (*SUITE_WORDS, "metric"), _TITLES, tuple(rows), notes)


def has_kin(suite: Suite) -> bool:
    """Return whether a suite has other kinds of ImageNet pictures to test on."""
    return any(split.name in KIN for split in suite.tests())


def table7(study: Study) -> Made:
    """Return the ECE on ImageNet-R, ImageNet-A and ImageNet-Sketch."""
    title = "Table 7: ECE on other kinds of ImageNet pictures"
    results = study.results(PAPER, has_kin)
    rows = []
    for split in KIN:
        for suite in results.suites:
            cells = tuple(
                record_cell(results, suite, method, split, "ece") for method in KEEP_CLASSES
            )
            if any(cells):
                network = study.labels[suite][1]
                rows.append(Row(suite, (set_title(split), network), cells))
    if not rows:
        needs = "an ImageNet suite with the test splits imagenet-r, imagenet-a or imagenet-sketch"
        command = (
            "wildcal extract DATA --dataset imagenet --network NETWORK.onnx"
            f" {' '.join(f'--extra {split}' for split in KIN)} -o SUITE"
        )
        left_out = tuple(troubles(results, KEEP_CLASSES))
        return MissingInputs("table7", title, needs, command, left_out)
    known = knowledge(study, results, KEEP_CLASSES, [row.suite for row in rows])
    notes = ["ECE of each set, in percent.", *known, *troubles(results, KEEP_CLASSES)]
    absent = [
        set_title(split) for split in KIN if set_title(split) not in {r.labels[0] for r in rows}
    ]
    if absent:
        notes.append(f"No suite has {' or '.join(absent)}; an extraction with more sets adds them.")
    return TableArtifact("table7", title, SUITE_WORDS, _TITLES, tuple(rows), tuple(notes))
