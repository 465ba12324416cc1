# wildcal from the wheel that `make dist` makes, as a command or as a server of calibrators:
#   docker build --target command -t wildcal .
#   docker run --rm -v "$PWD:/data" --user "$(id -u)" wildcal fit val.csv -o calibrator.json
#   docker build -t wildcal-serve .
#   docker run -p 8000:8000 -v "$PWD/models:/models:ro" -v wildcal-state:/state wildcal-serve /models/calibrator.json
FROM python:3.13-slim AS command
COPY dist/wildcal-*.whl /tmp/
# pyarrow reads tables of several kinds; other extras are for those who train and deploy.
RUN pip install --no-cache-dir "$(ls /tmp/wildcal-*.whl)[tables]" && rm /tmp/wildcal-*.whl
WORKDIR /data
USER 10001
ENTRYPOINT ["wildcal"]

FROM python:3.13-slim AS serve
RUN useradd --uid 10001 --create-home wildcal && mkdir /state && chown wildcal /state
COPY dist/wildcal-*.whl /tmp/
RUN pip install --no-cache-dir "$(ls /tmp/wildcal-*.whl)[serve]" && rm /tmp/wildcal-*.whl
USER 10001
WORKDIR /home/wildcal
VOLUME /state
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD \
  ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/v2/health/ready', timeout=2)"]
ENTRYPOINT ["wildcal", "serve", "--host", "0.0.0.0", "--port", "8000", "--state", "/state"]
