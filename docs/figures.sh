#!/usr/bin/env bash
# Makes the figures and the table of the README anew: bash docs/figures.sh [RUNS]
# Every run trains all eight combinations; the table has the median of the runs, least to most.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
runs=${1:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo build --release --locked
millrace=${CARGO_TARGET_DIR:-target}/release/millrace
for run in $(seq "$runs"); do
    echo "run $run of $runs"
    "$millrace" compare --repetitions 1 --quiet --out "$work/$run" > "$work/$run.txt"
done

for name in single-naive double-advanced; do
    "$millrace" gantt "$work/1/trace-$name.json" --batches 140..148 --out "$work/$name.svg"
    mv "$work/$name.svg" "docs/figures/$name.svg"
done

# Columns are found by name; medians and spreads are over the runs.
cat "$work"/*/table.csv | awk -F, -v runs="$runs" '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
    $1 == "combination" { next }
    {
        name = $1
        if (!(name in count)) order[++names] = name
        n = ++count[name]
        rate[name, n] = $column["images_per_second"]
        busy[name, n] = 100 * $column["worker_busy_share"]
        wait[name, n] = 100 * $column["wait_barrier_share"]
        idle[name, n] = 100 * $column["idle_barrier_share"]
        arena[name] = $column["peak_arena_bytes"] / 1048576
        rss[name, n] = $column["peak_rss_bytes"] / 1048576
        accuracy[name] = 100 * $column["test_accuracy"]
    }
    function sorted(values, name,    i, j, t) {
        for (i = 1; i <= runs; i++) s[i] = values[name, i]
        for (i = 2; i <= runs; i++)
            for (j = i; j > 1 && s[j] < s[j - 1]; j--) { t = s[j]; s[j] = s[j - 1]; s[j - 1] = t }
    }
    function median(values, name) { sorted(values, name); return s[int((runs + 1) / 2)] }
    END {
        print "| arena/loader | images/s, median (least to most) | main at barriers | workers busy | workers idle at barriers | arenas | peak RSS | test accuracy |"
        print "|---|---|---|---|---|---|---|---|"
        for (k = 1; k <= names; k++) {
            name = order[k]
            sorted(rate, name); least = s[1]; most = s[runs]
            printf "| %s | %.0f (%.0f to %.0f) | %.0f%% | %.0f%% | %.0f%% | %.1f MiB | %.1f MiB | %.2f%% |\n", \
                name, median(rate, name), least, most, median(wait, name), median(busy, name), \
                median(idle, name), arena[name], median(rss, name), accuracy[name]
        }
    }' > "$work/table.md"
cat "$work/table.md"
# The table stands between two comments of the README.
sed -i -e "/^<!-- figures -->/r $work/table.md" -e '/^<!-- figures -->/,/^<!-- end of figures -->/{/^|/d}' README.md
