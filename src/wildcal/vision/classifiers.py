"""Classifiers from checkpoints, torch modules, model collections and ONNX files."""

import hashlib
import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import FileFormatError, InputError, MissingExtraError, needs_extra
from wildcal.core.validation import check_choice
from wildcal.corruptions.images import Image
from wildcal.vision.features import check_layer, pooled_axes
from wildcal.vision.images import CIFAR10, Preprocess

if TYPE_CHECKING:
    import torch

SHIPPED: Final = "wildcal:"
COLLECTIONS: Final = ("torchvision", "timm", "hf")
# The processor of ConvNeXT in transformers resizes pictures of this size without cropping.
_NOT_CROPPED: Final = 384
Pixels = NDArray[np.float32]
"""Normalized images, shape (n, height, width, 3)."""
Outputs = tuple[NDArray[np.float32], dict[str, NDArray[np.float32]]]
"""Logits, shape (n, n_classes), and the features of layers, each of shape (n, n_features)."""


class Classifier(ABC):
    """Images in, logits out.

    Attributes
    ----------
    about
        Description for the manifest of a suite.
    preprocess
        How the network expects its pictures, where that is known.
    class_names
        The classes that it was trained for, where they are known.
    size
        Side of its input, where it is fixed.
    batch_size
        Where it is fixed.
    layers
        The layers whose features are taken by default, where they are known; the logits are last.
    """

    about: dict[str, Any]
    preprocess: Preprocess | None = None
    class_names: tuple[str, ...] | None = None
    size: int | None = None
    batch_size: int | None = None
    layers: tuple[str, ...] | None = None

    @abstractmethod
    def outputs(self, pixels: Pixels, layers: Sequence[str] = ()) -> Outputs:
        """Return logits and features of layers."""


class TorchClassifier(Classifier):
    """A torch module that takes float32 (n, 3, height, width) and returns logits."""

    def __init__(
        self,
        module: "torch.nn.Module",
        about: dict[str, Any],
        *,
        preprocess: Preprocess | None = None,
        class_names: tuple[str, ...] | None = None,
        device: str = "cpu",
    ) -> None:
        try:
            self.module = module.eval().to(device)
        # The kind depends on the device and on how torch was built.
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"device must be usable, got {device!r}: {reason}", "device"
            ) from error
        from wildcal.vision.layers import stage_ends

        self.layers = stage_ends(module)
        self.about = about | {"n_parameters": sum(p.numel() for p in module.parameters())}
        self.preprocess, self.class_names, self.device = preprocess, class_names, device
        # CPUs prefer channels-last images; other modules may read the layout of the memory.
        self._is_own = class_names is not None
        if self._is_own:
            import torch

            # The stubs of torch do not have the argument.
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def outputs(self, pixels: Pixels, layers: Sequence[str] = ()) -> Outputs:
        """Return logits and features."""
        import torch

        from wildcal.vision.layers import run_with_features

        x = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        x = x if self._is_own else x.contiguous()
        try:
            with torch.inference_mode():
                out, features = run_with_features(self.module, x.to(self.device), layers)
        except RuntimeError as error:
            raise InputError(
                f"network must run on images of shape {tuple(x.shape)}, got: {error}", "network"
            ) from error
        out = getattr(out, "logits", out)  # what transformer libraries return
        if not isinstance(out, torch.Tensor):
            raise InputError(
                f"network must return a tensor of logits, got {type(out).__name__}.", "network"
            )
        return out.float().cpu().numpy(), features


class OnnxClassifier(Classifier):
    """An ONNX file whose first input takes (n, 3, height, width) or (n, height, width, 3).

    Of several outputs, that named `logits` is taken, or the first.
    """

    def __init__(self, path: Path, *, device: str = "cpu") -> None:
        self._path, self._device = path, device
        self._session = _open_session(path, device)
        self._layers: tuple[str, ...] = ()
        entry, *_ = self._session.get_inputs()
        if len(entry.shape) != 4 or entry.type not in ("tensor(float)", "tensor(float16)"):
            raise InputError(
                f"network must take float images of shape (n, 3, height, width), got {entry.type}"
                f" {entry.shape}.",
                "network",
            )
        self._name = entry.name
        self._dtype = np.float32 if entry.type == "tensor(float)" else np.float16
        self._channels_last = entry.shape[1] != 3 and entry.shape[3] == 3
        side = entry.shape[1 if self._channels_last else 2]
        self.size = side if isinstance(side, int) else None
        self.batch_size = entry.shape[0] if isinstance(entry.shape[0], int) else None
        names = [output.name for output in self._session.get_outputs()]
        self._output = "logits" if "logits" in names else names[0]
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        self.about = {"name": path.stem, "kind": "onnx", "sha256": sha256}

    def outputs(self, pixels: Pixels, layers: Sequence[str] = ()) -> Outputs:
        """Return logits and features: tensors inside the network by their names."""
        n, names = len(pixels), tuple(layers)
        if names not in ((), self._layers):
            content = _with_outputs(self._path, names)
            self._session, self._layers = _open_session(self._path, self._device, content), names
        x = pixels.astype(self._dtype)
        if self.batch_size:  # the last batch of a file with a fixed batch size
            x = np.concatenate([x, np.repeat(x[-1:], self.batch_size - n, axis=0)])
        if not self._channels_last:
            x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        try:
            logits, *found = self._session.run([self._output, *names], {self._name: x})
        except Exception as error:  # ONNX Runtime has a class per kind, without a common base
            raise FileFormatError(
                f"cannot run {self._path} on images of shape {x.shape}: {error}"
            ) from error
        features = {}
        for name, values in zip(names, found, strict=True):
            features[name] = values.mean(pooled_axes(values.shape, name), dtype=np.float32)[:n]
        return logits[:n].astype(np.float32, copy=False), features


def _with_outputs(path: Path, names: Sequence[str]) -> bytes:
    """Return an ONNX network with some of its inner tensors as further outputs."""
    with needs_extra(str(path), "onnx"):
        import onnx
    try:
        model = onnx.load(str(path))
    except Exception as error:  # depends on which part of the file is damaged
        raise FileFormatError(f"cannot read {path} as an ONNX network: {error}") from error
    inner = [name for node in model.graph.node for name in node.output if name]
    for name in names:
        check_layer(name, inner)
    known = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    content: bytes = model.SerializeToString()
    return content


def open_classifier(
    network: str, *, weights: Path | None = None, device: str = "cpu"
) -> Classifier:
    """Return the classifier of a name or path.

    Parameters
    ----------
    network
        A checkpoint of `wildcal train` (.safetensors), an ONNX file (.onnx), `wildcal:NAME` for
        weights that come with wildcal, `torchvision:NAME`, `timm:NAME` or `hf:NAME` for a
        pretrained model of these libraries, or `module:function`, which is called without arguments
        and returns a torch module.
    weights
        For `module:function`, a .safetensors file.
    device
        Any device of torch; for ONNX, "cpu" or the best available provider.
    """
    path = shipped_weights(network) if network.startswith(SHIPPED) else Path(network)
    library, _, name = network.partition(":")
    is_function = path.suffix not in (".safetensors", ".onnx")
    if is_function and (not name or path.exists()):
        raise InputError(
            f"network must be a .safetensors or .onnx file, wildcal:NAME or module:function, got"
            f" {network}.",
            "network",
        )
    if weights is not None and (not is_function or library in COLLECTIONS):
        raise InputError("weights are for module:function only.", "weights")
    if path.suffix == ".onnx":
        return OnnxClassifier(path, device=device)
    if path.suffix == ".safetensors":
        return _open_checkpoint(path, device)
    module, preprocess = (
        _from_collection(library, name) if library in COLLECTIONS else _from_function(network)
    )
    if weights is not None:
        _load_weights(module, network, weights)
    about = {"name": network, "kind": "module", "sha256": _weights_hash(module)}
    return TorchClassifier(module, about, preprocess=preprocess, device=device)


def shipped_weights(network: str) -> Path:
    """Return the checkpoint of `wildcal:NAME`."""
    try:
        folder = Path(str(files("wildcal_suites").joinpath("weights")))
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"The weights {network} are not installed. Install them with:"
            ' pip install "wildcal[suites]"'
        ) from None
    found = {SHIPPED + path.stem: path for path in sorted(folder.glob("*.safetensors"))}
    check_choice("network", network, found)
    return found[network]


def _open_checkpoint(path: Path, device: str) -> TorchClassifier:
    from wildcal.vision.checkpoint import Checkpoint
    from wildcal.vision.networks import NETWORKS

    checkpoint = Checkpoint.load(path)
    checkpoint.check_trained(path)
    about = {
        "name": checkpoint.network,
        "family": NETWORKS[checkpoint.network].family,
        "kind": "checkpoint",
        "sha256": checkpoint.sha256,
        "trained_on": checkpoint.data,
        "recipe": checkpoint.recipe,
    }
    return TorchClassifier(
        checkpoint.build(),
        about,
        preprocess=replace(CIFAR10, mean=checkpoint.mean, std=checkpoint.std),
        class_names=checkpoint.class_names,
        device=device,
    )


def _from_function(target: str) -> tuple["torch.nn.Module", Preprocess | None]:
    """Call `module:function`; the preprocessing is read from what timm leaves in its models."""
    module_name, _, name = target.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does, so that code in the working folder is found
    try:
        make = getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError as error:
        raise InputError(
            f"network must be importable, got {target}: {error}. Is it installed, or in this"
            " folder?",
            "network",
        ) from error
    if not callable(make):
        raise InputError(f"network must be a callable, got {target}.", "network")
    import torch

    module = make()
    if not isinstance(module, torch.nn.Module):
        raise InputError(
            f"network must return a torch module, got {type(module).__name__} of {target}.",
            "network",
        )
    config = getattr(module, "pretrained_cfg", None)
    return module, _from_timm(config) if isinstance(config, dict) else None


def _from_collection(library: str, name: str) -> tuple["torch.nn.Module", Preprocess]:
    """Return a pretrained model and its preprocessing, as its library gives them."""
    package = {"hf": "transformers"}.get(library, library)
    try:
        found = importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{library}:{name} needs {package}. Install it with: pip install {package}"
        ) from error
    if library == "torchvision":
        weights = found.models.get_model_weights(name).DEFAULT
        module = found.models.get_model(name, weights=weights)
        return module, _from_torchvision(weights.transforms())
    if library == "timm":
        module = found.create_model(name, pretrained=True)
        return module, _from_timm(module.pretrained_cfg)
    processor = found.AutoImageProcessor.from_pretrained(name)
    module = found.AutoModelForImageClassification.from_pretrained(name)
    return module, _from_hugging_face(processor.to_dict())


def _from_torchvision(transforms: Any) -> Preprocess:
    (crop,), (resize,) = set(transforms.crop_size), set(transforms.resize_size)
    return Preprocess(
        crop=crop,
        resize=resize,
        interpolation=str(transforms.interpolation.value),
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
    )


def _from_timm(config: dict[str, Any]) -> Preprocess:
    crop = config["input_size"][-1]
    return Preprocess(
        crop=crop,
        resize=int(crop / config.get("crop_pct", 0.875)),
        interpolation=config.get("interpolation", "bilinear"),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
    )


def _from_hugging_face(config: dict[str, Any]) -> Preprocess:
    size = config["size"]
    crop = resize = size.get("shortest_edge") or size["height"]
    if config.get("do_center_crop"):
        crop = config["crop_size"]["height"]
    if config.get("crop_pct") and crop < _NOT_CROPPED:
        resize = int(resize / config["crop_pct"])
    is_normalized = config.get("image_mean") and config.get("do_normalize", True)
    return Preprocess(
        crop=crop,
        resize=max(crop, resize),
        interpolation=Image.Resampling(config.get("resample", 2)).name.lower(),
        mean=tuple(config["image_mean"]) if is_normalized else (0.0,) * 3,
        std=tuple(config["image_std"]) if is_normalized else (1.0,) * 3,
        channels="bgr" if config.get("do_flip_channel_order") else "rgb",
    )


def _weights_hash(module: "torch.nn.Module") -> str:
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _load_weights(module: "torch.nn.Module", target: str, path: Path) -> None:
    from wildcal.vision.checkpoint import SafetensorError, load_file

    if path.suffix != ".safetensors":
        raise InputError(
            f"weights must be a .safetensors file, because other kinds can run code, got {path}."
            " Convert it with safetensors.torch.save_file(state_dict, path).",
            "weights",
        )
    try:
        module.load_state_dict(load_file(path))
    except SafetensorError as error:
        raise FileFormatError(f"cannot read {path}: {error}.") from error
    except RuntimeError as error:
        raise InputError(f"weights must fit {target}, got {path}: {error}", "weights") from error


def _open_session(path: Path, device: str, content: bytes | None = None) -> Any:
    with needs_extra(str(path), "onnx"):
        import onnxruntime
    if not path.is_file():
        raise FileNotFoundError(f"there is no network {path}.")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors, which are raised as well
    available = onnxruntime.get_available_providers()
    try:
        providers = ["CPUExecutionProvider"] if device == "cpu" else available
        return onnxruntime.InferenceSession(content or path, options, providers=providers)
    except Exception as error:  # ONNX Runtime has a class per kind, without a common base
        raise FileFormatError(f"cannot read {path} as an ONNX network: {error}") from error
