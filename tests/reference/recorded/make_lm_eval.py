"""Sample logs written by lm-evaluation-harness, in an environment that has it.

A model of random log-likelihoods answers five questions of three tasks; the logs are those of
`--log_samples`. Recorded with lm_eval 0.4.13.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import yaml
from lm_eval import evaluator
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

HERE = Path(__file__).parent
QUESTIONS = [
    {"question": "2 + 2?", "choices": ["three", "four", "five", "twenty"], "topic": "sums"},
    {"question": "A color?", "choices": ["red", "Tuesday", "seventeen"], "topic": "words"},
    {"question": "Which is 1?", "choices": ["0", "1", "2"], "topic": "sums"},
    {"question": "An animal?", "choices": ["a stone", "dog"], "topic": "words"},
    {"question": "3 - 1?", "choices": ["two", "one", "zero", "three"], "topic": "sums"},
]
GOLD = [1, 0, 1, 1, 0]
SHARED = {
    "dataset_path": "json",
    "output_type": "multiple_choice",
    "test_split": "train",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_choice": "{{choices}}",
    "metric_list": [
        {"metric": name, "aggregation": "mean", "higher_is_better": True}
        for name in ("acc", "acc_norm")
    ],
}
FILTERS = [
    {"name": name, "filter": [{"function": "take_first"}]} for name in ("strict", "flexible")
]


class RandomModel(LM):
    """Log-likelihoods that depend on the text alone."""

    def loglikelihood(self, requests):
        """Return a number for each option, the smaller the longer it is."""
        found = []
        for request in requests:
            seed = sum(map(ord, "".join(request.args)))
            value = -len(request.args[1]) * np.random.default_rng(seed).uniform(0.2, 2.0)
            found.append((float(value), False))
        return found

    def generate_until(self, requests):
        """Not used."""
        return ["" for _ in requests]

    loglikelihood_rolling = generate_until


def main():
    """Write one log for each form of `target`."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        documents = [
            {**q, "gold": k, "letter": "ABCD"[k], "answer": q["choices"][k]}
            for q, k in zip(QUESTIONS, GOLD, strict=True)
        ]
        (place / "questions.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
        targets = {"index": "gold", "text": "{{answer}}", "filters": "gold"}
        for name, target in targets.items():
            task = {**SHARED, "task": f"target_{name}", "doc_to_target": target}
            task["dataset_kwargs"] = {"data_files": str(place / "questions.jsonl")}
            if name == "filters":
                task["filter_list"] = FILTERS
            (place / f"{name}.yaml").write_text(yaml.safe_dump(task))
        tracker = EvaluationTracker(output_path=str(place / "out"))
        tracker.general_config_tracker.model_name_sanitized = "random"
        tracker.date_id = "date"
        results = evaluator.simple_evaluate(
            model=RandomModel(),
            tasks=[f"target_{name}" for name in targets],
            task_manager=TaskManager(include_path=str(place), include_defaults=False),
            log_samples=True,
            bootstrap_iters=0,
        )
        for name, samples in results["samples"].items():
            tracker.save_results_samples(name, samples)
            written = place / "out" / "random" / f"samples_{name}_date.jsonl"
            (HERE / f"lm_eval_{name}.jsonl").write_bytes(written.read_bytes())


if __name__ == "__main__":
    main()
