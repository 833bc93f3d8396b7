# A worker on PyTorch, with the CUDA build that pip installs on Linux; the GPU's driver is the
# host's. Build from the root of the repository:
#   docker build -f docker/evaluator.Dockerfile -t self-crag-evaluator .
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    SELFCRAG_EVALUATOR_BACKEND=torch \
    SELFCRAG_EVALUATOR_HOST=0.0.0.0
WORKDIR /srv

COPY requirements.lock requirements-dev.lock pyproject.toml README.md LICENSE ./
# The largest layer depends on the locks alone; the tests' lock holds the tried version of torch.
RUN pip install -r requirements.lock \
    && mkdir evaluator \
    && touch evaluator/__init__.py \
    && pip install --constraint requirements-dev.lock --editable ".[gpu]"

COPY evaluator evaluator
RUN useradd --system selfcrag
USER selfcrag

EXPOSE 8001
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8001/health/ready', timeout=4)"]
CMD ["selfcrag-evaluator", "serve"]
