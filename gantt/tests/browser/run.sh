#!/usr/bin/env bash
# Tests the interactive page in a real browser without a screen: bash gantt/tests/browser/run.sh
# Needs Node 20 and Chromium (CHROMIUM names another program); installs Debian's where it may.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

export CHROMIUM=${CHROMIUM:-chromium}
missing=()
command -v "$CHROMIUM" >/dev/null || missing+=(chromium)
command -v npm >/dev/null || missing+=(npm)
if ((${#missing[@]})); then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
fi

pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
cargo run --quiet --locked --manifest-path "$here/../../Cargo.toml" --example pages "$pages"
npm ci --prefix "$here" --no-audit --no-fund --loglevel=error
PAGES=$pages node --test --test-reporter=spec "$here/viewer.test.mjs"
