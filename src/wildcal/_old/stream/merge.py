"""The windows of several replicas as one: their rows are put together, so their sums add."""

from collections.abc import Sequence

import numpy as np

from wildcal._old.stream.evidence import Evidence
from wildcal._old.stream.state import fingerprint
from wildcal._old.stream.stream import Stream


def merged(streams: Sequence[Stream]) -> Stream:
    """Return one stream whose window holds the rows in the windows of several.

    Its window is as large as theirs together, and its context is the sum of theirs, exactly: sums
    are of whole numbers. Estimated accuracy and drift are those of all their rows. Once all
    windows are full, the last all-new windows of each make up the one that the alarm is decided on.

    Parameters
    ----------
    streams
        Streams of one calibrator, with the same rate of false alarms. Nobody may be reading rows
        into them.

    Examples
    --------
    >>> import wildcal
    >>> from wildcal._old.calibrators.context import ContextScaling
    >>> suite = wildcal._old.suites.load("cifar10-resnet20")
    >>> logits, y, environment = wildcal._old.evaluation.environments(suite)
    >>> calibrator = ContextScaling().fit(logits, y, environment=environment)
    >>> a, b = Stream(calibrator), Stream(calibrator)
    >>> proba = a(suite.split("test").logits[:300]), b(suite.split("test").logits[300:400])
    >>> merged([a, b]).context == a.context + b.context
    True
    """
    if not streams:
        raise ValueError("merging needs at least one stream, got none.")
    first = streams[0]
    if len({fingerprint(stream.calibrator) for stream in streams}) > 1:
        raise ValueError("streams must have the same calibrator to be merged.")
    if len({stream.false_alarms for stream in streams}) > 1:
        raise ValueError("streams must have the same rate of false alarms to be merged.")
    if len({(stream.alarm, stream.false_alarms_per_100k) for stream in streams}) > 1:
        raise ValueError("streams must decide on alarms in the same way to be merged.")
    whole = Stream(
        first.calibrator,
        sum(stream.window for stream in streams),
        false_alarms=first.false_alarms,
        alarm=first.alarm,
        false_alarms_per_100k=first.false_alarms_per_100k,
    )
    whole._evidence = _together([stream._evidence for stream in streams])
    windows = [stream._window for stream in streams]
    parts = [window.rows() for window in windows]
    # Which came first in time is not known; the newest of each stay among the newest.
    age = np.concatenate([np.arange(1, p.shape[1] + 1) / max(p.shape[1], 1) for p in parts])
    rows = np.concatenate(parts, axis=1)[:, np.argsort(age, kind="stable")]
    full = all(stream.seen >= stream.window for stream in streams)
    filled = [window.totals.filled for window in windows]
    whole._window.restore(
        sum(stream.seen for stream in streams) if full else rows.shape[1],
        rows,
        np.sum([sums for sums in filled if sums is not None], axis=0) if full else None,
    )
    return whole


def _together(parts: Sequence[Evidence]) -> Evidence:
    """Return the evidence of all: stakes add, as rows do; blocks that are not whole are left out.

    The mean of the sum on n clean blocks in all is at most n, as that of one stream would be.
    """
    none = Evidence.none()
    return Evidence(
        np.sum([part.stakes for part in parts], axis=0),
        none.pending,
        none.count,
        min(part.since for part in parts),
        any(part.alarm for part in parts),
    )
