"""Make docs/images/report.png: the top of the report, as a browser shows it.

Needs Chromium and `pip install playwright`.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parent / "images" / "report.png"


def main() -> None:
    """Write a report on ResNet-20 and take a picture of it."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "report.html"
        words = ["report", "cifar10-resnet20", "-o", str(page)]
        subprocess.run([sys.executable, "-m", "wildcal", *words], check=True)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        view = browser.new_page(viewport={"width": 1440, "height": 1500}, color_scheme="light")
        view.goto(page.as_uri())
        view.screenshot(path=TARGET)
        browser.close()


if __name__ == "__main__":
    main()
