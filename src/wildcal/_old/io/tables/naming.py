"""The names that columns and arrays go by when nobody says otherwise."""

from wildcal._old.core.kinds import KINDS

LOGIT_NAMES = ("logits", "z", "scores")
LABEL_NAMES = ("y", "labels", "label", "targets", "target")
ENVIRONMENT_NAMES = ("environment", "environments")
DISTANCE_NAMES = ("distances",)
DISTANCE_COLUMNS = ("distance_", "density_")
WEIGHT_NAMES = ("weight", "weights", "sample_weight")
PREDICTED = "pred"
RESULT_NAMES = ("proba", "confidence", PREDICTED, "temperature")
"""What `wildcal apply` writes: results, which are no logits."""

SCORE_NAMES = {
    "logits": LOGIT_NAMES,
    "proba": ("proba", "probabilities", "probs"),
    "logprobs": ("logprobs", "top_logprobs", "log_proba", "log_probs"),
    "score": ("score", "scores", "decision_function", "logits"),
}
# With names like these a column says itself that it is a class, and the others are not.
PREFIXES = {
    "logits": ("logit_", "logits_"),
    "proba": ("proba_", "prob_"),
    "logprobs": ("logprob_", "logprobs_"),
    "score": (),
}
ROLES = ("y", "weight", "environment", "distances", "ids")
ROLE_NAMES = {
    "y": (*LABEL_NAMES, "label_ids"),
    "weight": WEIGHT_NAMES,
    "environment": ENVIRONMENT_NAMES,
    "distances": DISTANCE_NAMES,
    "ids": (),
}
SCORE_ROLES = KINDS
"""The scores may be called by their kind in `arrays`, whichever it is."""
