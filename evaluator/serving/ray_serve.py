"""Worker replicas on Ray Serve: `serve run evaluator.serving.ray_serve:app` (extra `serve`).

Settings are read where `serve run` is called and travel to the replicas; the folder of the weights
must exist at the same path on every machine.
"""

from fastapi import FastAPI
from ray import serve
from ray.serve.config import AutoscalingConfig, BackpressureConfig

from evaluator.serving.app import create_app
from evaluator.settings import ServeSettings, read_settings

NUM_CPUS = 1.0
TARGET_ONGOING_REQUESTS, MAX_ONGOING_REQUESTS, MAX_QUEUED_REQUESTS = 8.0, 128, 128
HEALTH_PERIOD_S, HEALTH_TIMEOUT_S = 5.0, 15.0
STOP_WITHIN_S = 20.0


def app(options: ServeSettings) -> serve.Application:
    """The application; Ray reads the options from `key=value` of its command line, else from
    the environment.

    A replica takes requests once its lifespan has loaded the weights and warmed them up.
    """
    settings = read_settings()

    def worker() -> FastAPI:
        return create_app(settings)

    replicas = serve.deployment(
        serve.ingress(worker)(),
        name="evaluator",
        ray_actor_options={"num_cpus": NUM_CPUS, "num_gpus": options.num_gpus},
        autoscaling_config=AutoscalingConfig(
            min_replicas=options.min_replicas,
            max_replicas=options.max_replicas,
            target_ongoing_requests=TARGET_ONGOING_REQUESTS,
        ),
        max_ongoing_requests=MAX_ONGOING_REQUESTS,
        max_queued_requests=MAX_QUEUED_REQUESTS,
        # Without it a full queue is 503 without Retry-After.
        backpressure_config=BackpressureConfig(status_code=429, retry_after_s=1),
        health_check_period_s=HEALTH_PERIOD_S,
        health_check_timeout_s=HEALTH_TIMEOUT_S,
        graceful_shutdown_timeout_s=STOP_WITHIN_S,
    )
    return replicas.bind()
