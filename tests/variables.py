"""The variables of the environment that settings are read from."""

from app.extension import load_extensions, settings_of
from app.settings import Settings
from evaluator.settings import EvaluatorSettings, ServeSettings
from tests.handbook.reference import variable

KINDS = (Settings, EvaluatorSettings, ServeSettings, *settings_of(load_extensions()))
VARIABLES = {
    variable(settings, name): (settings, name)
    for settings in KINDS
    for name in settings.model_fields
}
DEFAULTS = {name: kind.model_fields[field].default for name, (kind, field) in VARIABLES.items()}
