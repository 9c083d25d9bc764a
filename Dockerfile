# The appview: the read side. No embedder, no compiler, not root.
FROM python:3.12-slim AS build
WORKDIR /build
RUN python -m venv /opt/engram
COPY locks/appview.txt locks/build.txt ./locks/
RUN /opt/engram/bin/pip install --no-cache-dir --require-hashes --no-deps -r locks/appview.txt \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes --no-deps -r locks/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY lexicons ./lexicons
COPY embedders ./embedders
COPY publisher ./publisher
COPY appview ./appview
RUN /opt/build/bin/python -m hatchling build --target wheel --directory /build/dist \
 && /opt/engram/bin/pip install --no-cache-dir --no-deps --no-index /build/dist/*.whl

FROM python:3.12-slim
RUN useradd --system --uid 10001 --create-home --home-dir /home/engram engram \
 && mkdir /data && chown engram:engram /data
COPY --from=build /opt/engram /opt/engram
ENV PATH=/opt/engram/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ENGRAM_DATA=/data \
    ENGRAM_HOST=0.0.0.0 \
    ENGRAM_PORT=8420 \
    ENGRAM_LOG_FORMAT=json
USER engram
VOLUME /data
EXPOSE 8420
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['ENGRAM_PORT']}/xrpc/_health\", timeout=4)"]
ENTRYPOINT ["engram-appview"]
CMD ["serve"]
