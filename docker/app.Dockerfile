# The service, and the worker on ONNX Runtime: one image for both, since the service can hold the
# worker inside and they share most of what they need. No torch. Build it from the repository's root:
#   docker build -f docker/app.Dockerfile -t self-crag .
FROM python:3.11.15-slim-bookworm AS build

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
# The environment that is copied has no installer of its own.
RUN python -m venv --without-pip /opt/venv
WORKDIR /build

# Any value adds the client of Milvus: --build-arg MILVUS=yes
ARG MILVUS=
# Any value adds the export of OpenTelemetry spans: --build-arg OTEL=yes
ARG OTEL=
COPY requirements.lock docker/milvus.txt docker/otel.txt ./
RUN pip --python /opt/venv install -r requirements.lock \
    ${MILVUS:+-r milvus.txt} ${OTEL:+-r otel.txt}

# Apart from what it needs, so that a change of ours is a small layer.
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY graphs graphs
COPY prompts prompts
COPY evaluator evaluator
RUN pip --python /opt/venv install --no-deps --prefix /ours .


FROM python:3.11.15-slim-bookworm

# A number that no user of the host is likely to have; a new volume takes over the folder's owner.
RUN useradd --system --uid 10001 --home-dir /tmp --shell /usr/sbin/nologin selfcrag \
    && mkdir -p /srv/state \
    && chown selfcrag /srv/state
COPY --from=build /opt/venv /opt/venv
COPY --from=build /ours /opt/venv
COPY docs /srv/docs

ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SELFCRAG_HOST=0.0.0.0 \
    SELFCRAG_EVALUATOR_HOST=0.0.0.0 \
    SELFCRAG_DATA_DIR=/srv/state
WORKDIR /srv
USER 10001

EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=180s \
    CMD ["python", "-c", "import urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:8000/health/ready', timeout=4)"]
# At the first start a key is made and printed, once; documents that have not changed are skipped.
CMD ["sh", "-c", "selfcrag keys ensure owner && selfcrag ingest docs --collection sample && exec selfcrag serve"]
