"""Sentences to vectors, by a sentence encoder in a folder (needs `pip install transformers`)."""

import pathlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

TOKENS = 128
BLOCK = 32


class Encoder:
    """The mean of the last layer over the tokens, of length one, as MiniLM was trained."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.tokens = AutoTokenizer.from_pretrained(folder)
        self.network = AutoModel.from_pretrained(folder).eval()

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        # Sentences of like length together: little is padded, and the order is put back at the end.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found = np.empty((len(texts), self.network.config.hidden_size), np.float32)
        for i in range(0, len(order), BLOCK):
            some = order[i : i + BLOCK]
            found[some] = self._block([texts[k] for k in some])
        return found

    @torch.inference_mode()
    def _block(self, texts: list[str]) -> NDArray[np.float32]:
        cut = {"truncation": True, "max_length": TOKENS}
        read = self.tokens(texts, padding=True, return_tensors="pt", **cut)
        there = read["attention_mask"][..., None]
        mean = (self.network(**read).last_hidden_state * there).sum(1) / there.sum(1)
        return torch.nn.functional.normalize(mean, dim=1).numpy()
