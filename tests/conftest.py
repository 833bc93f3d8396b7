"""The network stops at loopback in every test; `--no-skips` makes a skipped test a failure."""

import gc

import pytest
from hypothesis import HealthCheck, settings
from pytest_socket import socket_allow_hosts

pytest_plugins = ["tests.loopback.fixtures"]

# A machine under load is slow; what properties show has nothing to do with time.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> object:
    """A million objects come and stay: no garbage is looked for among them meanwhile."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup() -> None:
    socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skip other than gpu is a failure")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> object:
    report: pytest.TestReport = yield
    is_skip = report.skipped and not hasattr(report, "wasxfail") and "gpu" not in item.keywords
    if is_skip and item.config.getoption("--no-skips"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: {report.longrepr}"
    return report
