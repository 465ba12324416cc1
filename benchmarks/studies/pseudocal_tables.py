"""The csv of pseudocal.py as a Markdown table; docs/make.py puts it into the docs."""

from pathlib import Path

from context_tables import markdown, read

CSV = Path(__file__).with_name("pseudocal.csv")
SETTINGS = {
    "whole": "whole",
    "32 rows": "32",
    "256 rows, Dirichlet(0.3)": "Dirichlet(0.3)",
    "stream, 1/6 clean": "stream",
}
METRICS = ("excess_ece", "accuracy_off")


def table() -> str:
    """Return excess ECE / error of the accuracy of each method, by network and setting."""
    found = {
        (r["network"], r["method"], r["setting"], r["metric"]): 100 * float(r["value"])
        for r in read(CSV)
    }
    lines, last = [], None
    for network, method in dict.fromkeys(at[:2] for at in found):
        cells = []
        for setting in SETTINGS:
            numbers = [found.get((network, method, setting, metric)) for metric in METRICS]
            cells.append(" / ".join(f"{x:.2f}" for x in numbers if x is not None))
        word = f"`{method}`" if not method.startswith("oracle") else method
        lines.append([network if network != last else "", word, *cells])
        last = network
    return markdown(["network", "method", *SETTINGS.values()], lines, 2)


TABLES = {"window-pseudocal": table}
