"""`selfcrag`: the command line of the service."""

from app.cli.main import cli as cli
from app.cli.main import main as main
