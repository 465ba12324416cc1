"""Write a smaller suite: the first samples of each split, whose order is random.

python benchmarks/suites/sample.py SUITE --source 1500 --test 50 --validation 20 --ood 400 -o sample
wildcal suite export sample --dtype float16 --step 0.125 -o imagenet-resnet18.npz
"""

import argparse
from pathlib import Path

from wildcal import Suite, SuiteWriter
from wildcal.io.suite import Split


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", type=Path)
    for name, splits in (
        ("source", "source split"),
        ("test", "shifted test split"),
        ("validation", "shifted calibration split"),
        ("ood", "OOD split"),
    ):
        parser.add_argument(f"--{name}", type=int, required=True, help=f"samples of each {splits}")
    parser.add_argument("--model", help="name of the model in tables, by default as in SUITE")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    suite = Suite.open(options.suite)
    suite.verify()
    limits = {name: getattr(options, name) for name in ("source", "test", "validation", "ood")}
    writer = SuiteWriter(
        options.output,
        class_names=suite.class_names,
        input=suite.input,
        model={**suite.model, **({"name": options.model} if options.model else {})},
        data={**suite.data, "sample": limits},
        seed=suite.seed,
        versions=suite.versions,
    )
    for split in suite.splits:
        n = limits[kind(split)]
        writer.add(
            split.name,
            split.logits[:n],
            split.y[:n],
            role=split.role,
            domain=split.domain,
            corruption=split.corruption,
            severity=split.severity,
        )
    writer.finish()


def kind(split: Split) -> str:
    """Return the option that limits a split."""
    if split.is_source:
        return "source"
    if split.is_ood:
        return "ood"
    return "test" if split.role == "test" else "validation"


if __name__ == "__main__":
    main()
