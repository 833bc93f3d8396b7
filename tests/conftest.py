"""The network stops at loopback in every test."""

import pytest
from pytest_socket import socket_allow_hosts

pytest_plugins = ["tests.loopback.fixtures"]


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup() -> None:
    socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)
