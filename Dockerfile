# The command `cloakwork` alone: not as root, on a read-only file system, without network:
#
#   docker build --tag cloakwork .
#   mkdir -p "$HOME/.local/share/cloakwork"
#   docker run --rm --network none --read-only --tmpfs /tmp \
#     --cap-drop ALL --security-opt no-new-privileges --user "$(id -u):$(id -g)" \
#     --volume "$PWD:/work" --volume "$HOME/.local/share/cloakwork:/data" \
#     cloakwork apply policy.yaml log.xes.gz --out release
#
# The folder is made first: Docker would make a missing one, and root would own it.
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY engine engine
COPY policies policies
COPY schemas schemas
COPY examples/logs examples/logs
RUN pip install --no-cache-dir --constraint constraints.txt build hatchling \
    && python -m build --no-isolation --wheel --outdir /wheels

FROM python:3.11-slim
COPY --from=build /source/constraints.txt /wheels/*.whl /tmp/wheels/
RUN pip install --no-cache-dir --constraint /tmp/wheels/constraints.txt /tmp/wheels/*.whl \
    && rm -r /tmp/wheels \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin cloakwork \
    && install --directory --owner 10001 --mode 0700 /data /work
# Ledger and keys lie in /data, logs and releases in /work: mount both, nothing else is written.
ENV CLOAKWORK_HOME=/data CLOAKWORK_NO_CACHE=1 HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /work
ENTRYPOINT ["cloakwork"]
CMD ["--help"]
