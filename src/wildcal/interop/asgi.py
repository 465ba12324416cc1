"""A calibrator as an ASGI application, to mount in FastAPI, Starlette or Django (extra `serve`)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wildcal._old.core.calibrator import Calibrator
from wildcal._old.serve.app import Settings, make_app
from wildcal._old.serve.lanes import Windows
from wildcal._old.serve.limits import Limits
from wildcal._old.serve.model import Model

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["Limits", "Settings", "Windows", "app"]


def app(
    calibrator: Calibrator | Mapping[str, Calibrator], settings: Settings | None = None
) -> "Starlette":
    """Return what `wildcal serve` serves, for a server of your own.

    Parameters
    ----------
    calibrator
        A fitted calibrator, served under the name "calibrator", or several by their names.
    settings
        Windows, limits, tokens and the folder of states. The server that this is mounted in stands
        for the limits on connections and heads. A mounted application is not told when its server
        stops: with `state`, set `save_rows`, or enter `app.router.lifespan_context(app)` in the
        lifespan of your own.

    Examples
    --------
    >>> import numpy as np
    >>> import wildcal
    >>> from starlette.applications import Starlette
    >>> from starlette.routing import Mount
    >>> rng = np.random.default_rng(0)
    >>> z = 2 * rng.normal(size=(300, 3))
    >>> ts = wildcal.TemperatureScaling().fit(z, (z + rng.gumbel(size=z.shape)).argmax(axis=1))
    >>> mine = Starlette(routes=[Mount("/calibration", app(ts))])
    """
    named: dict[str, Any] = (
        {"calibrator": calibrator} if not isinstance(calibrator, Mapping) else dict(calibrator)
    )
    return make_app([Model(name, one) for name, one in named.items()], settings or Settings())
