"""A suite with fewer rows: the first of each kind of split, whose rows come in a random order.

python benchmarks/suites/sample.py SUITE --clean 1500 --cell 40 --tune 20 --other 500 -o sample
wildcal suite pack sample --dtype float16 --step 0.125 -o imagenet-resnet18.npz
"""

import argparse
import pathlib

from wildcal._old.io.suite import Suite, SuiteWriter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=pathlib.Path)
    parser.add_argument("--clean", type=int, required=True, help="rows of each clean split")
    parser.add_argument("--cell", type=int, required=True, help="rows of each shifted test split")
    parser.add_argument("--tune", type=int, required=True, help="rows of each shifted tuning split")
    parser.add_argument("--other", type=int, required=True, help="rows of each semantic split")
    parser.add_argument("--network", help="what tables call it, if not by the name of its file")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    suite = Suite.open(options.suite, verify=True)
    most = {
        "none": options.clean,
        "semantic": options.other,
        "covariate": options.cell,
        "tune": options.tune,
    }
    writer = SuiteWriter(
        options.output,
        network=suite.network | ({"name": options.network} if options.network else {}),
        data=suite.data | {"sample": most},
        seed=suite.seed,
        versions=suite.versions,
        n_classes=suite.n_classes,
        class_names=suite.class_names,
    )
    for split in suite.splits:
        shifted = split.shift == "covariate" and split.role == "tune"
        n = most["tune" if shifted else split.shift]
        writer.add(
            split.name,
            split.logits[:n],
            split.y[:n],
            role=split.role,
            shift=split.shift,
            corruption=split.corruption,
            severity=split.severity,
        )
    writer.finish([split.name for split in suite.splits])


if __name__ == "__main__":
    main()
