"""Options by name, as in scikit-learn: `get_params`, `set_params` and a short `repr`."""

from dataclasses import dataclass, fields
from typing import Any, Self

from wildcal.core.exceptions import InputError


@dataclass(eq=False, repr=False)
class BaseEstimator:
    """Base class of dataclasses whose options are the fields that `__init__` takes."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name; those of a nested estimator as ``base__name``."""
        params = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        if deep:
            for name, value in list(params.items()):
                if isinstance(value, BaseEstimator):
                    params |= {f"{name}__{key}": item for key, item in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set options by name and return self."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                own = ", ".join(self.get_params(deep=False)) or "none"
                raise InputError(
                    f"{type(self).__name__} has no option {name!r}. Options: {own}.", name
                )
            first, _, rest = name.partition("__")
            if rest:
                getattr(self, first).set_params(**{rest: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {f.name: f.default for f in fields(self) if f.init}
        changed = [f"{k}={v!r}" for k, v in self.get_params(deep=False).items() if v != defaults[k]]
        return f"{type(self).__name__}({', '.join(changed)})"
