"""Train a network, one checkpoint per epoch; a run that was stopped goes on where it was."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from wildcal._old.vision.batches import Augmented, Normalizer
from wildcal._old.vision.checkpoint import Checkpoint
from wildcal._old.vision.networks import build
from wildcal._old.vision.predict import as_input, channels_last, on_device, predict_logits
from wildcal._old.vision.recipe import Recipe
from wildcal._old.vision.training_data import TrainingData


@dataclass(frozen=True, slots=True)
class Progress:
    """Where training stands: loss and accuracy are means over the epoch so far."""

    epoch: int
    step: int
    n_steps: int
    loss: float
    accuracy: float
    watched_accuracy: float | None = None
    """Set once, at the end of each epoch."""


def train(
    network: str,
    data: TrainingData,
    path: Path,
    *,
    recipe: Recipe,
    start: Checkpoint | None = None,
    device: str = "cpu",
    on_step: Callable[[Progress], None] = lambda progress: None,
) -> Checkpoint:
    """Train until `recipe.epochs` are done and return the last checkpoint, which is at `path`.

    Where a checkpoint of the same training is at `path`, it goes on from there. An epoch draws all
    its randomness from the seed and its own number, so a run in pieces gives the weights of a run
    in one piece.

    Parameters
    ----------
    start
        A trained network of the same kind whose weights to begin with.
    """
    found = Checkpoint.load(path) if path.exists() else None
    torch.manual_seed(recipe.seed)
    model = channels_last(on_device(build(network, len(data.class_names)), device))
    if start is not None:
        _check_start(start, network, data)
        model.load_state_dict(start.weights)
    checkpoint = Checkpoint(
        network=network,
        data=data.name,
        class_names=data.class_names,
        mean=data.normalize.mean,
        std=data.normalize.std,
        recipe=asdict(recipe) | ({} if start is None else {"start": start.sha256}),
        weights={},
    )
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=recipe.learning_rate,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        nesterov=recipe.momentum > 0,
    )
    if found is not None:
        checkpoint = _resumed(path, found, checkpoint)
        model.load_state_dict(checkpoint.weights)
        _set_momentum(model, optimizer, checkpoint)
    augmented = Augmented.of(data.images, data.labels)
    for epoch in range(len(checkpoint.history), recipe.epochs):
        trainer = _Epoch(model, optimizer, data.normalize, recipe, epoch, device)
        loss, accuracy, n_steps = trainer.run(augmented, on_step)
        logits = predict_logits(model, data.watched_images, data.normalize, device=device)
        watched = float(np.mean(logits.argmax(1) == data.watched_labels))
        on_step(Progress(epoch, n_steps, n_steps, loss, accuracy, watched))
        checkpoint.history.append({"loss": loss, "accuracy": accuracy, "watched": watched})
        checkpoint.weights = {n: t.cpu() for n, t in model.state_dict().items()}
        done = epoch + 1 == recipe.epochs
        checkpoint.momentum = {} if done else _momentum(model, optimizer)
        checkpoint.save(path)
    return checkpoint


@dataclass(frozen=True, slots=True)
class _Epoch:
    """One pass over the training images."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    normalize: Normalizer
    recipe: Recipe
    epoch: int
    device: str

    def run(self, data: Augmented, on_step: Callable[[Progress], None]) -> tuple[float, float, int]:
        recipe = self.recipe
        torch.manual_seed((recipe.seed * 100_003 + self.epoch + 1) % 2**63)  # for dropout
        rng = np.random.default_rng([recipe.seed, self.epoch])
        n_steps = -(-len(data.labels) // recipe.batch_size)
        loss_sum = right = seen = 0.0
        self.model.train()
        batches = data.batches(rng, size=recipe.batch_size, crop=recipe.crop(self.epoch))
        for step, (images, labels) in enumerate(batches):
            rate = recipe.rate((self.epoch + (step + 0.5) / n_steps) / recipe.epochs)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            x = as_input(self.normalize(images)).to(self.device)
            y = torch.from_numpy(labels).to(self.device)
            logits = self.model(x)
            loss = cross_entropy(logits, y)
            if not torch.isfinite(loss):
                raise FloatingPointError(
                    f"the loss became {loss.item()} in epoch {self.epoch + 1};"
                    f" try a learning rate below {recipe.learning_rate:g}."
                )
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            seen += len(labels)
            loss_sum += loss.item() * len(labels)
            right += float((logits.argmax(1) == y).sum())
            on_step(Progress(self.epoch, step + 1, n_steps, loss_sum / seen, right / seen))
        return loss_sum / seen, right / seen, n_steps


def _check_start(start: Checkpoint, network: str, data: TrainingData) -> None:
    wanted = (network, data.name, len(data.class_names))
    if (start.network, start.data, len(start.class_names)) != wanted:
        raise ValueError(
            f"the network to start from must be a {network} for {data.name},"
            f" got a {start.network} for {start.data}."
        )


def _resumed(path: Path, found: Checkpoint, fresh: Checkpoint) -> Checkpoint:
    """Return the checkpoint found at `path`, or raise if it belongs to another training."""
    for name in ("network", "data", "class_names", "mean", "std", "recipe"):
        theirs, ours = getattr(found, name), getattr(fresh, name)
        if theirs != ours:
            if isinstance(ours, dict):
                name = next(k for k in (*ours, *theirs) if theirs.get(k) != ours.get(k))
                theirs, ours = theirs.get(name), ours.get(name)
            raise ValueError(
                f"{path} was trained with {name} = {theirs}, not {ours};"
                " give the same options to go on, or another output."
            )
    unfinished = len(found.history) < fresh.recipe["epochs"]
    if unfinished and fresh.recipe["momentum"] and not found.momentum:
        raise ValueError(f"{path} is not finished and lacks what is needed to go on; remove it.")
    return found


def _momentum(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        name: optimizer.state[p]["momentum_buffer"].cpu()
        for name, p in model.named_parameters()
        if optimizer.state[p].get("momentum_buffer") is not None
    }


def _set_momentum(
    model: nn.Module, optimizer: torch.optim.Optimizer, checkpoint: Checkpoint
) -> None:
    for name, parameter in model.named_parameters():
        if name in checkpoint.momentum:
            # The layout of the weights, so that a step adds in the same order as before.
            buffer = torch.empty_like(parameter).copy_(checkpoint.momentum[name])
            optimizer.state[parameter]["momentum_buffer"] = buffer
