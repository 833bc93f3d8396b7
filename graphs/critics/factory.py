"""Who judges drafts: the evaluator, a language model, or the generator's own reflection tokens."""

from graphs.critics.evaluator import EvaluatorCritic
from graphs.ports import Critic, Services


def critic_of(services: Services) -> Critic:
    """The critic the service chose; else its evaluator."""
    return services.critic or EvaluatorCritic(services.evaluator)
