# The command, from the wheel that `make dist` makes; examples/serve/Dockerfile is the server.
#   docker build -t wildcal .
#   docker run --rm -v "$PWD:/data" --user "$(id -u)" wildcal fit val.csv -o calibrator.json
FROM python:3.13-slim
COPY dist/wildcal-*.whl /tmp/
# pyarrow reads tables of several kinds; other extras are for those who train and deploy.
RUN pip install --no-cache-dir "$(ls /tmp/wildcal-*.whl)[tables]" && rm /tmp/wildcal-*.whl
WORKDIR /data
USER 10001
ENTRYPOINT ["wildcal"]
