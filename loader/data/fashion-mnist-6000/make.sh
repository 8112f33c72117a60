#!/bin/sh
# Makes the four files of this folder, and LICENSE, from Debian's package of the full data set.
# Needs apt-get, dpkg and a Rust toolchain. Run it anywhere inside a checkout.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$work"
apt-get download dataset-fashion-mnist
dpkg -x dataset-fashion-mnist_*.deb full

cd "$here"
cargo run --release -p millrace-loader --example embed -- \
    "$work/full/usr/share/datasets/fashion-mnist" "$here"
cp "$work/full/usr/share/doc/dataset-fashion-mnist/copyright" LICENSE
