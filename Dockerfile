# rldyno with toolchains built in. No Docker is needed to use rldyno; this is for those who want one image.
#
#   docker build -t rldyno .                                  CPU: NumPy and PyTorch, enough for the quickstart
#   docker build -t rldyno --build-arg VARIANT=cuda .         the same for NVIDIA GPUs
#   docker build -t rldyno --build-arg TOOLCHAINS="numpy torch jax tensorflow" .
#
#   docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" rldyno run quickstart
#   docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" --gpus all rldyno run gpu
#
# Frameworks bring their own CUDA libraries: the image needs none, only the driver of the host
# (with the NVIDIA Container Toolkit). Python 3.11 is the one version that all frameworks support.
FROM python:3.11-slim-bookworm

# g++: torch.compile, Theano and PyTensor write C++ when they run.
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/rldyno
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir .

# cpu or cuda; a container sees no GPU while it is built, so the config file says which one is used.
ARG VARIANT=cpu
# `rldyno setup --list` shows the others.
ARG TOOLCHAINS="numpy torch"
# PyPI's PyTorch brings gigabytes of CUDA libraries; this index has builds without them.
ARG CPU_INDEX=https://download.pytorch.org/whl/cpu
ENV RLDYNO_CACHE_DIR=/var/cache/rldyno \
    RLDYNO_CONFIG=/etc/rldyno.toml \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    HOME=/tmp
# Any user may run the image: proofs and estimates are kept beside the toolchains.
RUN echo "variant = \"$VARIANT\"" > "$RLDYNO_CONFIG" \
    && if [ "$VARIANT" = cpu ]; then export PIP_EXTRA_INDEX_URL="$CPU_INDEX"; fi \
    && PIP_NO_CACHE_DIR=1 rldyno setup $TOOLCHAINS \
    && chmod -R a+rwX "$RLDYNO_CACHE_DIR"

WORKDIR /work
ENTRYPOINT ["rldyno"]
CMD ["run", "quickstart"]
