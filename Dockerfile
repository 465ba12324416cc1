# A server of calibrators, from the wheel: `python -m build --wheel` (or pip wheel . -w dist --no-deps) first, then
#   docker build -t wildcal .
#   docker run -p 8000:8000 -v $PWD/models:/models:ro -v wildcal-state:/state wildcal /models/context.json
FROM python:3.13-slim
RUN useradd --uid 10001 --create-home wildcal && mkdir /state && chown wildcal /state
COPY dist/wildcal-*.whl /tmp/
RUN pip install --no-cache-dir "$(ls /tmp/wildcal-*.whl)[serve]" && rm /tmp/wildcal-*.whl
USER wildcal
WORKDIR /home/wildcal
VOLUME /state
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD \
  ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/v2/health/ready', timeout=2)"]
ENTRYPOINT ["wildcal", "serve", "--host", "0.0.0.0", "--port", "8000", "--state", "/state"]
