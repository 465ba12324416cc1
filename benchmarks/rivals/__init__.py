"""Published methods that are not part of the package, for studies; written from their papers."""

from wildcal.core.registry import register

NAMES = {
    "ace": "ace:AdaptiveEnsemble",
    "nearest": "nearest_domain:NearestDomain",
    "cpcs": "importance:CPCS",
    "transcal": "importance:TransCal",
    "md-ts": "multi_domain:MultiDomainTemperatureScaling",
    "smart": "smart:SMART",
}
"""Calibrators. The accuracy estimators are in `scores`."""


def register_all() -> None:
    """Add the rivals to the names of `get_calibrator`."""
    for name, place in NAMES.items():
        register(name, f"rivals.{place}")
