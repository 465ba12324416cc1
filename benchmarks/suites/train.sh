#!/usr/bin/env bash
# Trains every network of the shipped suites, one after the other, on one core: train.sh DATA RUNS [WILDCAL]
# Stop it whenever you like; the same command goes on after the last whole epoch.
set -euo pipefail
data=$1 runs=$2 wildcal=${3:-wildcal}
mkdir -p "$runs"

train() { # DATASET NETWORK [OPTION...]
    local dataset=$1 network=$2
    shift 2
    OMP_NUM_THREADS=1 "$wildcal" train "$data" --dataset "$dataset" --network "$network" --resume "$@" \
        -o "$runs/$dataset-$network.safetensors"
}

train cifar100 resnet20 --epochs 40
train cifar10 se-resnet20 --epochs 30
train cifar100 wrn-16-2 --epochs 40
train cifar10 densenet-45 --epochs 30
train cifar100 vgg11-half --epochs 40 --learning-rate 0.1
train cifar100 se-resnet20 --epochs 40
train cifar10 resnet20 --epochs 40
train cifar10 wrn-16-2 --epochs 40
