"""Classifiers in ONNX files, run by ONNX Runtime: the road for networks of any framework."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError, MissingExtraError
from wildcal._old.core.parallel import thread_count
from wildcal._old.io.files import file_hash, refuse_external_data
from wildcal._old.vision.batches import Normalizer, Pixels, batch_size
from wildcal._old.vision.classifiers.base import Classifier
from wildcal._old.vision.pooling import pooled_axes

try:
    import onnxruntime
except ImportError as error:
    raise MissingExtraError(
        'ONNX networks need ONNX Runtime. Install it with: pip install "wildcal[onnx]"'
    ) from error

# A batch and a side of a picture that are still believed.
_LONGEST = 4096
_DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


@final
class OnnxClassifier(Classifier):
    """The first input takes normalized pixels, (n, 3, H, W) or (n, H, W, 3).

    Of several outputs, that named `logits` is taken, or the first. Files with a fixed batch size
    are fed in such batches. Where the shape leaves it open, channels come first.
    """

    def __init__(self, path: Path, normalize: Normalizer, *, device: str = "cpu") -> None:
        self._session = _open(path, device)
        self._path, self._device = path, device
        self._inner: tuple[tuple[str, ...], Any] | None = None
        self.normalize = normalize
        self.about = {"name": path.stem, "kind": "onnx", "sha256": file_hash(path)}
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if not (inputs and outputs):
            raise ValueError(f"{path} must take images and give logits: it has no input or output.")
        entry = inputs[0]
        fixed = [length for length in entry.shape if isinstance(length, int)]
        if (
            entry.type not in _DTYPES
            or len(entry.shape) != 4
            or not all(1 <= length <= _LONGEST for length in fixed)
        ):
            raise ValueError(
                f"{path} must take float images of shape (n, 3, H, W), with lengths of at most"
                f" {_LONGEST:,}, got {entry.type} {entry.shape}."
            )
        self._name, self._dtype = entry.name, _DTYPES[entry.type]
        self._channels_last = entry.shape[1] != 3 and entry.shape[3] == 3
        self._fixed = entry.shape[0] if isinstance(entry.shape[0], int) else None
        side = entry.shape[1 if self._channels_last else 2]
        self.size = side if isinstance(side, int) else None
        names = [output.name for output in outputs]
        self._output = "logits" if "logits" in names else names[0]

    def block(self, side: int) -> int:
        """Return how many images of a side the network reads at once."""
        return self._fixed or batch_size(side)

    def logits(self, images: Pixels) -> NDArray[np.float32]:
        """Return float32 logits."""
        (logits,) = self._outputs(self._session, images, [self._output])
        return np.concatenate(logits).astype(np.float32, copy=False)

    def features(
        self, images: Pixels, layers: Sequence[str]
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Return the logits and pooled inner tensors, by their names in the file.

        The network runs twice. One that gives inner tensors too is optimized less, so the last bits
        of its logits may differ; the logits are those of the network as it is.
        """
        logits = self.logits(images)
        if not layers:
            return logits, []
        session = self._with_outputs(tuple(layers))
        pooled = []
        for name, parts in zip(layers, self._outputs(session, images, layers), strict=True):
            means = [p.mean(pooled_axes(p.shape, name), dtype=np.float32) for p in parts]
            pooled.append(np.concatenate(means))
        return logits, pooled

    def default_layers(self, images: Pixels) -> tuple[str, ...]:
        """Return the last picture at each resolution and what the last linear layer reads."""
        from wildcal._old.vision.classifiers.onnx_layers import default_tensors

        return default_tensors(
            self._path,
            images.shape[1],
            channels_last=self._channels_last,
            logits=self._output,
        )

    def _with_outputs(self, names: tuple[str, ...]) -> Any:
        """Return a session that gives inner tensors; the latest is kept."""
        from wildcal._old.vision.classifiers.onnx_layers import with_outputs

        if self._inner is None or self._inner[0] != names:
            self._inner = names, _open(self._path, self._device, with_outputs(self._path, names))
        return self._inner[1]

    def _outputs(
        self, session: Any, images: Pixels, names: Sequence[str]
    ) -> list[list[NDArray[Any]]]:
        """Return some outputs, each as a list of the batches."""
        size = self.block(images.shape[1])
        batches = [
            self._run(session, images[i : i + size], names) for i in range(0, len(images), size)
        ]
        return [list(parts) for parts in zip(*batches, strict=True)]

    def _run(self, session: Any, images: Pixels, names: Sequence[str]) -> list[NDArray[Any]]:
        pixels = self.normalize(images).astype(self._dtype, copy=False)
        missing = (self._fixed or len(pixels)) - len(pixels)
        if missing:  # the last batch of a file that takes one size only
            pixels = np.concatenate([pixels, np.repeat(pixels[-1:], missing, axis=0)])
        if not self._channels_last:
            pixels = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
        try:
            outputs = [np.asarray(o) for o in session.run(list(names), {self._name: pixels})]
        # Of several kinds, as when a file is opened: shapes that do not go together, mostly.
        except Exception as error:
            reason = " ".join(str(error).split())
            raise FileFormatError(
                f"cannot run {self._path} on images of shape {pixels.shape}: {reason:.300}"
            ) from error
        for name, output in zip(names, outputs, strict=True):
            # Before it is cut: of several rows per image, the first would be those of few images.
            if output.shape[:1] != (len(pixels),):
                choose = "" if name == self._output else "; choose another with layers="
                raise ValueError(f"layer {name} must give one row for each image{choose}.")
        return [output[: len(images)] for output in outputs]


def _open(path: Path, device: str, changed: bytes | None = None) -> Any:
    """Return a session that runs the file, or a changed copy of its content."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no network {path}.")
    refuse_external_data(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = thread_count()
    options.log_severity_level = 3  # errors; they are raised as well
    try:
        available = onnxruntime.get_available_providers()
        providers = ["CPUExecutionProvider"] if device == "cpu" else available
        return onnxruntime.InferenceSession(changed or path, options, providers=providers)
    # ONNX Runtime has an exception class per kind of damage, without a common base of its own.
    except Exception as error:
        reason = " ".join(str(error).split())
        raise FileFormatError(f"cannot read {path} as an ONNX network: {reason}") from error
