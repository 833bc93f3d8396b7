"""Worker replicas on Ray Serve: `serve run evaluator.serving.ray_serve:app` (extra `serve`).

Settings are read where `serve run` is called and travel to the replicas; the folder of the weights
must exist at the same path on every machine.
"""

from fastapi import FastAPI
from ray import serve
from ray.serve.config import AutoscalingConfig, BackpressureConfig

from evaluator.serving.app import create_app
from evaluator.settings import ServeSettings, read_settings


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
        ray_actor_options={"num_cpus": 1.0, "num_gpus": options.num_gpus},
        autoscaling_config=AutoscalingConfig(
            min_replicas=options.min_replicas,
            max_replicas=options.max_replicas,
            target_ongoing_requests=8.0,
        ),
        max_ongoing_requests=128,
        max_queued_requests=128,
        # Without it a full queue is 503 without Retry-After.
        backpressure_config=BackpressureConfig(status_code=429, retry_after_s=1),
        health_check_period_s=5.0,
        health_check_timeout_s=15.0,
        graceful_shutdown_timeout_s=20.0,
    )
    return replicas.bind()
