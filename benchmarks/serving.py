"""A server to measure: a process that says where it listens, such as `wildcal serve`."""

import re
import signal
import subprocess
import threading
from pathlib import Path

import wildcal
from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.evaluation import environments
from wildcal._old.io.artifact import save as save_context

SUITE = "cifar10-resnet20"


def save_calibrators(folder: Path) -> None:
    """Write context.json and ts.json."""
    suite = wildcal._old.suites.load(SUITE)
    rows, clean = environments(suite), suite.split("validation")
    context = ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)
    save_context(context, folder / "context.json")
    wildcal.save(wildcal.TemperatureScaling().fit(clean.logits, clean.y), folder / "ts.json")


class Server:
    """A process that serves; its address is `url`, and `host` and `port`."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []
        for line in self.process.stderr:
            self.said.append(line.rstrip())
            if found := re.search(r"on http://([\d.]+):(\d+)$", line):
                self.host, self.port = found[1], int(found[2])
                self.url = f"http://{self.host}:{self.port}"
                self._reader = threading.Thread(target=self._read, daemon=True)
                self._reader.start()
                return
        raise RuntimeError("\n".join(self.said))

    def _read(self) -> None:
        """Keep reading what it says: a pipe that is full would stop it."""
        self.said += [line.rstrip() for line in self.process.stderr]

    def processor_seconds(self) -> float:
        """Return the processor time that it has taken."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def stop(self) -> int:
        """End it as an operator does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(timeout=60)
        self._reader.join()
        return code
