# A worker on PyTorch, with the CUDA build that pip installs on Linux; the driver is the host's.
# Build it from the repository's root:
#   docker build -f docker/evaluator.Dockerfile -t self-crag-evaluator .
FROM python:3.11.15-slim-bookworm AS build

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv --without-pip /opt/venv
WORKDIR /build

# What a worker imports and no more; the tests' lock holds the versions that were tried.
COPY requirements-dev.lock docker/evaluator.txt ./
RUN pip --python /opt/venv install --constraint requirements-dev.lock -r evaluator.txt

COPY pyproject.toml README.md LICENSE ./
COPY evaluator evaluator
RUN pip --python /opt/venv install --no-deps --prefix /ours .


FROM python:3.11.15-slim-bookworm

RUN useradd --system --uid 10001 --home-dir /tmp --shell /usr/sbin/nologin selfcrag
COPY --from=build /opt/venv /opt/venv
COPY --from=build /ours /opt/venv

ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HF_HUB_OFFLINE=1 \
    SELFCRAG_EVALUATOR_BACKEND=torch \
    SELFCRAG_EVALUATOR_HOST=0.0.0.0
WORKDIR /srv
USER 10001

EXPOSE 8001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=180s \
    CMD ["python", "-c", "import urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:8001/health/ready', timeout=4)"]
CMD ["selfcrag-evaluator", "serve"]
