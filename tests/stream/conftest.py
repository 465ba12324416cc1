import pytest

import wildcal
from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.evaluation import environments


@pytest.fixture(scope="session")
def suite():
    return wildcal._old.suites.load("cifar10-resnet20")


@pytest.fixture(scope="session")
def calibrator(suite):
    rows = environments(suite)
    return ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)


@pytest.fixture(scope="session")
def clean(suite):
    return suite.split("test")


@pytest.fixture(scope="session")
def foggy(suite):
    return suite.split("fog-5")
