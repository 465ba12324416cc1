"""Whether training can be computed in bfloat16 here: tried in a process that may die of it."""

import signal
import subprocess
import sys
from functools import cache
from typing import Final

import torch

# One step of a small network. Convolutions alone tell nothing: of processors that announce AMX to
# virtual machines which may not use it, a linear layer is what dies ("Illegal instruction").
_STEP: Final = """
import torch
network = torch.nn.Sequential(
    torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.BatchNorm2d(64), torch.nn.ReLU(),
    torch.nn.Conv2d(64, 64, 3, stride=4), torch.nn.Flatten(), torch.nn.Linear(4096, 100),
).to(memory_format=torch.channels_last)
images = torch.randn(32, 3, 32, 32).to(memory_format=torch.channels_last)
with torch.autocast("cpu", torch.bfloat16):
    logits = network(images)
torch.nn.functional.cross_entropy(logits.float(), torch.arange(32)).backward()
"""
_SECONDS: Final = 300.0  # mostly the import of torch; a busy machine takes a minute


def bfloat16_pays(device: str) -> bool:
    """Return whether a device announces bfloat16 that is faster than float32.

    Of processors those with AMX: by AVX-512 alone, steps of small networks took a sixth to a third
    longer than in float32 (one Xeon, one thread). Others emulate it.
    """
    if device.startswith("cuda"):
        return bool(torch.cuda.is_bf16_supported())
    able = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return device == "cpu" and bool(able.get("amx_bf16"))


def bfloat16_trouble(device: str) -> str:
    """Return how a step in bfloat16 ends where it does not work, and nothing where it does."""
    return trouble_of(_STEP) if device == "cpu" else ""


@cache
def trouble_of(code: str, seconds: float = _SECONDS) -> str:
    """Return how a process that runs Python code ends, and nothing where it ends well.

    Examples
    --------
    >>> trouble_of("1 / 0")
    'ZeroDivisionError: division by zero'
    """
    command = [sys.executable, "-P", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"no end within {seconds:g} seconds"
    if done.returncode < 0:
        return signal.strsignal(-done.returncode) or f"signal {-done.returncode}"
    if done.returncode > 0:
        return (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return ""
