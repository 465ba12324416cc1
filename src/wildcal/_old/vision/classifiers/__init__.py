"""Classifiers: our checkpoints, any torch module, any ONNX file."""

from pathlib import Path

from wildcal._old.vision.batches import Normalizer
from wildcal._old.vision.classifiers.base import Classifier
from wildcal._old.vision.shipped import is_shipped, shipped_weights

__all__ = ["Classifier", "open_classifier"]


def open_classifier(
    network: str,
    normalize: Normalizer,
    *,
    weights: str | Path | None = None,
    device: str = "cpu",
) -> Classifier:
    """Return the classifier that a word on the command line stands for.

    Parameters
    ----------
    network
        A checkpoint of `wildcal train` (.safetensors), an ONNX file (.onnx), `module:callable`, or
        `wildcal:NAME` for weights that come with wildcal.
    normalize
        What is done to the pixels; a checkpoint knows its own.
    weights
        A safetensors file for `module:callable`.
    """
    path = shipped_weights(network) if is_shipped(network) else Path(network)
    is_module = path.suffix not in (".safetensors", ".onnx")
    if is_module and (":" not in network or path.exists()):
        raise ValueError(
            f"cannot tell what {network} is: give a checkpoint (.safetensors), an ONNX file"
            " (.onnx), module:callable or wildcal:NAME."
        )
    if weights is not None and not is_module:
        raise ValueError("weights are for module:callable; the file has its own.")
    # Imported when they are needed: one needs torch, the other ONNX Runtime.
    if path.suffix == ".onnx":
        from wildcal._old.vision.classifiers.onnx import OnnxClassifier

        return OnnxClassifier(path, normalize, device=device)
    import wildcal._old.vision.networks  # noqa: F401  # says what to install where torch is missing
    from wildcal._old.vision.classifiers.torch_module import open_checkpoint, open_module

    if path.suffix == ".safetensors":
        return open_checkpoint(path, device=device)
    return open_module(
        network, normalize, weights=None if weights is None else Path(weights), device=device
    )
