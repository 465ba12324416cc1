"""Logits on texts: a linear head on a sentence encoder, asked about typos and about other domains.

python benchmarks/suites/texts.py banking77 ENCODER BANKING NEWSGROUPS -o banking-samples
python benchmarks/suites/texts.py amazon ENCODER REVIEWS -o amazon-samples

ENCODER is the folder of all-MiniLM-L6-v2. BANKING holds train.csv and test.csv of BANKING77,
NEWSGROUPS a folder for each group of 20 Newsgroups, REVIEWS books/, dvd/, electronics/ and
kitchen_&_housewares/ of the Multi-Domain Sentiment data, each with positive.review and
negative.review.
"""

import argparse
import csv
import pathlib
import re

import numpy as np
from encoder import Encoder
from heads import halves_and_quarters, train, write
from typos import KINDS

OTHERS = {"sport": ("rec.sport.baseball", "rec.sport.hockey"), "science": ("sci.med", "sci.space")}
N_OTHERS = 500
TUNED = 2003
"""Of the 10,003 training sentences of BANKING77, those that the head does not see."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=("banking77", "amazon"))
    parser.add_argument("encoder", type=pathlib.Path)
    parser.add_argument("folders", type=pathlib.Path, nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    parts = {"banking77": banking77, "amazon": amazon}[options.data]
    write(options.output, *parts(Encoder(options.encoder), *options.folders, seed=options.seed))


def banking77(encode, banking, newsgroups, *, seed):
    """Return a head on intents, and features: clean, mistyped, terse, of other domains."""
    (texts, intents), (test, test_intents) = (read_csv(banking / f"{p}.csv") for p in PARTS)
    names = {name: k for k, name in enumerate(sorted(set(intents)))}
    y, test_y = (np.array([names[i] for i in some]) for some in (intents, test_intents))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(texts))
    tune, learn = np.sort(order[:TUNED]), np.sort(order[TUNED:])
    seen = encode(texts)
    parts = {"tune": (seen[tune], y[tune]), "test": (encode(test), test_y)}
    for kind, change in KINDS.items():
        for severity in range(1, 6):
            changed = [change(text, severity, rng) for text in test]
            parts[f"{kind}-{severity}"] = (encode(changed), test_y)
    for name, groups in OTHERS.items():
        posts = [post for group in groups for post in read_posts(newsgroups / group)]
        rows = rng.choice(len(posts), N_OTHERS, replace=False)
        parts[name] = (encode([posts[i] for i in rows]), None)
    return train(seen[learn], y[learn], seed), parts


PARTS = ("train", "test")


def amazon(encode, reviews, *, seed):
    """Return a head on what readers think of books, and features of reviews of other things."""
    read = {d: read_reviews(reviews / d) for d in sorted(p.name for p in reviews.iterdir())}
    texts, y = read.pop("books")
    seen = encode(texts)
    learn, tune, test = halves_and_quarters(y, seed)
    parts = {"tune": (seen[tune], y[tune]), "test": (seen[test], y[test])}
    for domain, (texts, labels) in read.items():
        parts[domain.partition("_")[0]] = (encode(texts), labels)
    return train(seen[learn], y[learn], seed), parts


def read_csv(path):
    """Return sentences and intents."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [(row["text"], row["category"]) for row in csv.DictReader(file)]
    return [text for text, _ in rows], [intent for _, intent in rows]


def read_posts(folder):
    """Return the first words of posts, without heads and quotations, as long as a question."""
    for path in sorted(folder.iterdir()):
        _, _, body = path.read_text("latin-1").partition("\n\n")
        lines = [line for line in body.splitlines() if not re.match(r"\s*[>|:]|.*writes:", line)]
        words = " ".join(" ".join(lines).split()[:15])
        if len(words) > 30:
            yield words


def read_reviews(folder):
    """Return reviews and whether they are good."""
    texts, labels = [], []
    for label, kind in enumerate(("negative", "positive")):
        whole = (folder / f"{kind}.review").read_text("latin-1")
        found = re.findall(r"<review_text>(.*?)</review_text>", whole, flags=re.S)
        texts += [" ".join(text.split()) for text in found]
        labels += [label] * len(found)
    return texts, np.array(labels)


if __name__ == "__main__":
    main()
