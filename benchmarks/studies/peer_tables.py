"""benchmarks/peers.csv as a table and as a picture."""

from math import floor, log10

Row = dict[str, str]
_LEFT, _RIGHT, _STEP, _TOP = 300, 690, 18, 34
_COLORS = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#a16207")


def size(row: Row) -> str:
    """Return how many rows and classes."""
    return f"{int(row['rows']):,} x {int(row['classes']):,}"


def table(rows: list[Row]) -> str:
    """Return how we compare with every peer: their time divided by ours."""
    head = "| job | rows x classes | ms | MB | share of the limit | peers: their time / ours |"
    lines = [head, "|---|--:|--:|--:|--:|---|"]
    for ours in (r for r in rows if r["who"] == "wildcal"):
        others = [
            f"{r['who']} {float(r['faster']):.1f}" if r["faster"] else f"{r['who']}: {r['note']}"
            for r in rows
            if r["who"] != "wildcal" and (r["job"], size(r)) == (ours["job"], size(ours))
        ]
        share = f"{float(ours['share']):.2f} {ours['limit']}" if ours["share"] else ""
        lines.append(
            f"| {ours['job']} | {size(ours)} | {float(ours['ms']):.3g} | {float(ours['MB']):.2g}"
            f" | {share} | {', '.join(others)} |"
        )
    return "\n".join(lines)


def limits(rows: list[Row]) -> str:
    """Return what applying TS takes, and what NumPy's exponential takes of it, against torch."""
    lines = ["| rows x classes | torch / ours | torch / NumPy's exp alone |", "|---|--:|--:|"]
    mine = [r for r in rows if r["job"] == "apply TS"]
    for ours in (r for r in mine if r["who"] == "wildcal"):
        for torch in (r for r in mine if r["who"] == "torch" and size(r) == size(ours)):
            if torch["faster"]:
                ratio = float(torch["faster"])
                alone = ratio / float(ours["share"])
                lines.append(f"| {size(ours)} | {ratio:.2f} | {alone:.2f} |")
    return "\n".join(lines)


def single(rows: list[Row]) -> str:
    """Return what one row costs, in multiples of NumPy's softmax of it."""
    one = [r for r in rows if r["who"] == "NumPy's softmax"]
    sizes = list(dict.fromkeys(r["classes"] for r in one))
    lines = ["| method |" + "".join(f" K = {int(k):,} |" for k in sizes)]
    lines.append("|---|" + "--:|" * len(sizes))
    for job in dict.fromkeys(r["job"] for r in one):
        # Single rows of ten classes are measured beside 50,000 rows and beside 2,000,000.
        least = (
            [1 / float(r["faster"]) for r in one if (r["job"], r["classes"]) == (job, k)]
            for k in sizes
        )
        cells = " | ".join(f"{min(some):.1f}" if some else "" for some in least)
        lines.append(f"| `{job.removeprefix('one row of ').split(',')[0]}` | {cells} |")
    return "\n".join(lines)


def figure(rows: list[Row]) -> str:
    """Return a line for each job and peer with a dot for each size, as SVG."""
    rows = [r for r in rows if r["who"] != "wildcal" and r["faster"]]
    sizes = list(dict.fromkeys(map(size, rows)))
    lines = list(dict.fromkeys((r["job"], r["who"]) for r in rows))
    logs = [log10(float(r["faster"])) for r in rows]
    low, high = min(floor(min(logs)), -1), max(floor(max(logs)) + 1, 1)

    def across(log: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (log - low) / (high - low)

    bottom = _TOP + _STEP * len(lines)
    marks = []
    for tick in range(low, high + 1):
        x = f"{across(tick):.1f}"
        kind = "one" if tick == 0 else "grid"
        marks += [
            f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}" class="{kind}"/>',
            f'<text x="{x}" y="{bottom + 15}" class="middle">{10.0**tick:g}</text>',
        ]
    for i, (job, who) in enumerate(lines):
        y = _TOP + _STEP * (i + 0.5)
        marks.append(f'<text x="{_LEFT - 10}" y="{y + 4:g}" class="end">{job}: {who}</text>')
        for r in rows:
            if (r["job"], r["who"]) == (job, who):
                color, x = _COLORS[sizes.index(size(r))], across(log10(float(r["faster"])))
                marks.append(f'<circle cx="{x:.1f}" cy="{y:g}" r="4" fill="{color}"/>')
    for i, name in enumerate(sizes):
        x = 20 + 125 * i
        marks += [
            f'<circle cx="{x}" cy="14" r="4" fill="{_COLORS[i]}"/>',
            f'<text x="{x + 8}" y="18">{name}</text>',
        ]
    style = (
        ".grid{stroke:#888;stroke-opacity:.3}.one{stroke:#888;stroke-width:2}"
        "text{font:12px sans-serif;fill:#777}.middle{text-anchor:middle}.end{text-anchor:end}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 710 {bottom + 42}" role="img"'
        ' aria-label="How many times longer each peer takes, by job and size">\n'
        f"<style>{style}</style>\n" + "\n".join(marks) + "\n"
        f'<text x="{(_LEFT + _RIGHT) / 2:g}" y="{bottom + 34}" class="middle">processor time of'
        " the peer divided by ours; right of 1 we are ahead</text>\n</svg>\n"
    )
