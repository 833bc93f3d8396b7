# The service with the worker inside, on the CPU. Build from the root of the repository:
#   docker build -f docker/app.Dockerfile -t self-crag .
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    SELFCRAG_HOST=0.0.0.0 \
    SELFCRAG_DATA_DIR=/srv/state
WORKDIR /srv

COPY requirements.lock ./
RUN pip install -r requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY graphs graphs
COPY prompts prompts
COPY evaluator evaluator
COPY docs docs
RUN pip install --no-deps --editable . \
    && useradd --system selfcrag \
    && mkdir state \
    && chown selfcrag state
USER selfcrag

EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=4)"]
# Documents that have not changed are skipped. At the first start a key is made and printed, once.
CMD ["sh", "-c", "selfcrag ingest docs && selfcrag keys ensure owner && exec selfcrag serve"]
