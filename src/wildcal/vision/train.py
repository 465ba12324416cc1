"""Train a network on CIFAR, one checkpoint per epoch; a run that was stopped continues."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy

from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_number
from wildcal.vision.checkpoint import Checkpoint
from wildcal.vision.datasets import CIFAR
from wildcal.vision.images import CIFAR_PREPROCESS, Images, Indices, Preprocess
from wildcal.vision.networks import build
from wildcal.vision.splits import n_learned

_PAD: Final = 4
"""Black pixels around an image, into which crops may reach."""
_N_HELD_OUT: Final = 1000
_MOMENTUM: Final = 0.9


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Nesterov SGD over one cycle of the learning rate, with random crops and flips.

    No label smoothing, no mixup and no choice of the best epoch, so that the network is as
    overconfident as those in use.

    Parameters
    ----------
    epochs, batch_size, learning_rate, weight_decay, seed
        As usual; the learning rate is that at its peak.
    warm_up
        Share of the steps in which the learning rate rises; then it falls linearly to zero.
    small_crops
        Share of the epochs, at the start, on crops of 24 x 24 pixels: 56 % of the work.
    """

    epochs: int = 16
    batch_size: int = 128
    learning_rate: float = 0.2
    weight_decay: float = 5e-4
    warm_up: float = 0.2
    small_crops: float = 0.4
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("epochs", self.epochs, 1, whole=True)
        check_number("batch_size", self.batch_size, 2, whole=True)
        check_number("seed", self.seed, 0, whole=True)
        for name in ("learning_rate", "weight_decay"):
            check_number(name, getattr(self, name), 0)
        for name in ("warm_up", "small_crops"):
            check_number(name, getattr(self, name), 0, 1)

    def crop(self, epoch: int) -> int:
        """Return the side of the crops of an epoch, counted from 0."""
        return 24 if epoch < round(self.small_crops * self.epochs) else 32

    def rate(self, progress: float) -> float:
        """Return the learning rate at a share 0..1 of all steps."""
        rising = progress / self.warm_up if self.warm_up else 1.0
        falling = (1 - progress) / (1 - self.warm_up) if self.warm_up < 1 else 1.0
        return self.learning_rate * min(rising, falling)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Images to learn from, and held-out images whose accuracy is reported."""

    name: str
    class_names: tuple[str, ...]
    preprocess: Preprocess
    images: Images
    labels: Indices
    held_out_images: Images
    held_out_labels: Indices


def read_training_data(dataset: str, folder: str | Path) -> TrainingData:
    """Return the training images of "cifar10" or "cifar100" without those for calibration."""
    images = CIFAR[dataset](folder, "train")
    n = n_learned(len(images))
    learned, held_out = np.arange(n), np.arange(n, min(n + _N_HELD_OUT, len(images)))
    return TrainingData(
        name=dataset,
        class_names=images.class_names,
        preprocess=CIFAR_PREPROCESS[dataset],
        images=images.read(learned),
        labels=images.labels[learned],
        held_out_images=images.read(held_out),
        held_out_labels=images.labels[held_out],
    )


@dataclass(frozen=True)
class Progress:
    """State of the training: loss and accuracy are means over the epoch so far."""

    epoch: int
    step: int
    n_steps: int
    loss: float
    accuracy: float
    held_out_accuracy: float | None = None
    """Set once, at the end of each epoch."""


def train(
    network: str,
    data: TrainingData,
    path: Path,
    *,
    recipe: Recipe,
    start: Checkpoint | None = None,
    device: str = "cpu",
    progress: Callable[[Progress], object] = lambda state: None,
) -> Checkpoint:
    """Train until `recipe.epochs` are done and return the last checkpoint, which is at `path`.

    A checkpoint of the same training at `path` is continued. The randomness of an epoch depends on
    the seed and its number only, so an interrupted run ends with the weights of one in one piece.

    Parameters
    ----------
    network
        A name in `NETWORKS`.
    data
        What to learn.
    path
        Where checkpoints are written.
    recipe
        How to learn.
    start
        A trained network of the same kind; training begins with its weights.
    device
        Any device of torch.
    progress
        Called after every step.
    """
    torch.manual_seed(recipe.seed)
    model = build(network, len(data.class_names)).to(device)
    # CPUs prefer channels-last images; the stubs of torch do not have the argument.
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=recipe.learning_rate,
        momentum=_MOMENTUM,
        weight_decay=recipe.weight_decay,
        nesterov=True,
    )
    checkpoint = Checkpoint(
        network=network,
        data=data.name,
        class_names=data.class_names,
        mean=data.preprocess.mean,
        std=data.preprocess.std,
        recipe=asdict(recipe),
        weights={},
    )
    if start is not None:
        _check_start(start, checkpoint)
        checkpoint.recipe["start"] = start.sha256
        model.load_state_dict(start.weights)
    if path.exists():
        checkpoint = _resumed(path, checkpoint, model, optimizer)
    for epoch in range(len(checkpoint.history), recipe.epochs):
        state = _run_epoch(model, optimizer, data, recipe, epoch, device, progress)
        held_out = _accuracy(model, data, device)
        progress(replace(state, held_out_accuracy=held_out))
        checkpoint.history.append(
            {"loss": state.loss, "accuracy": state.accuracy, "held_out": held_out}
        )
        checkpoint.weights = {n: t.cpu() for n, t in model.state_dict().items()}
        checkpoint.momentum = {}
        if epoch + 1 < recipe.epochs:
            for name, parameter in model.named_parameters():
                checkpoint.momentum[name] = optimizer.state[parameter]["momentum_buffer"].cpu()
        checkpoint.save(path)
    return checkpoint


def augmented_batches(
    data: TrainingData, rng: np.random.Generator, *, size: int, crop: int
) -> Iterator[tuple[Images, Indices]]:
    """Yield every image once, in random order, cropped and flipped at random.

    Crops as large as the image reach into a black border, smaller ones stay inside the image.
    """
    border = _PAD if crop == data.images.shape[1] else 0
    padded = np.pad(data.images, ((0, 0), (border, border), (border, border), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (crop, crop), axis=(1, 2))
    n = len(padded)
    order = rng.permutation(n)
    corners = rng.integers(0, windows.shape[1], size=(n, 2))
    flips: NDArray[np.bool_] = np.less(rng.random(n), 0.5)
    for first in range(0, n - 1, size):  # batch normalization needs two images
        part = slice(first, first + size)
        cut = windows[order[part], corners[part, 0], corners[part, 1]].transpose(0, 2, 3, 1)
        cut[flips[part]] = cut[flips[part], :, ::-1]
        yield np.ascontiguousarray(cut), data.labels[order[part]]


def _run_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: TrainingData,
    recipe: Recipe,
    epoch: int,
    device: str,
    progress: Callable[[Progress], object],
) -> Progress:
    torch.manual_seed((recipe.seed * 100_003 + epoch + 1) % 2**63)  # for dropout
    rng = np.random.default_rng([recipe.seed, epoch])
    n_steps = -(-len(data.labels) // recipe.batch_size)
    loss_sum = n_right = n_seen = 0.0
    state = Progress(epoch, 0, n_steps, 0.0, 0.0)
    model.train()
    batches = augmented_batches(data, rng, size=recipe.batch_size, crop=recipe.crop(epoch))
    for step, (images, labels) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate((epoch + (step + 0.5) / n_steps) / recipe.epochs)
        y = torch.from_numpy(labels).to(device)
        logits = model(_as_input(data.preprocess, images).to(device))
        loss = cross_entropy(logits, y)
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"the loss became {loss.item()} in epoch {epoch + 1}."
                f" Try a learning rate below {recipe.learning_rate:g}."
            )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        n_seen += len(labels)
        loss_sum += loss.item() * len(labels)
        n_right += float((logits.argmax(1) == y).sum())
        state = Progress(epoch, step + 1, n_steps, loss_sum / n_seen, n_right / n_seen)
        progress(state)
    return state


def _accuracy(model: nn.Module, data: TrainingData, device: str) -> float:
    model.eval()
    n_right = 0
    with torch.inference_mode():
        for first in range(0, len(data.held_out_labels), 100):
            part = slice(first, first + 100)
            logits = model(_as_input(data.preprocess, data.held_out_images[part]).to(device))
            n_right += int((logits.argmax(1).cpu().numpy() == data.held_out_labels[part]).sum())
    return n_right / len(data.held_out_labels)


def _as_input(preprocess: Preprocess, images: Images) -> torch.Tensor:
    """Return normalized images as (n, 3, height, width), channels-last in memory."""
    return torch.from_numpy(preprocess.normalize(images)).permute(0, 3, 1, 2)


def _check_start(start: Checkpoint, new: Checkpoint) -> None:
    if (start.network, start.data) != (new.network, new.data):
        raise InputError(
            f"start must be a {new.network} for {new.data}, got a {start.network} for"
            f" {start.data}.",
            "start",
        )


def _resumed(
    path: Path, new: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer
) -> Checkpoint:
    """Return the checkpoint at `path` and load its weights; raise if it is of another training."""
    found = Checkpoint.load(path)
    saved, new_options = (
        {"network": c.network, "data": c.data, "mean": c.mean, "std": c.std} | c.recipe
        for c in (found, new)
    )
    for name in new_options | saved:
        if saved.get(name) != new_options.get(name):
            raise InputError(
                f"{name} must be that of the training in {path}, {saved.get(name)}, got"
                f" {new_options.get(name)}. Try another output.",
                name,
            )
    model.load_state_dict(found.weights)
    for name, parameter in model.named_parameters():
        if name in found.momentum:
            buffer = torch.empty_like(parameter).copy_(found.momentum[name])
            optimizer.state[parameter]["momentum_buffer"] = buffer
    return found
