#!/usr/bin/env python3
"""Checks what `millrace compare --out DIR` wrote: python3 check_outputs.py DIR WORKERS."""
import csv
import json
import pathlib
import sys
import xml.etree.ElementTree as ET

out, workers = pathlib.Path(sys.argv[1]), int(sys.argv[2])
combinations = [f"{a}-{l}" for a in ("single", "double")
                for l in ("naive", "prefetch", "double", "advanced")]
SVG = "{http://www.w3.org/2000/svg}"


def texts(root):
    return {"".join(t.itertext()).strip() for t in root.iter(f"{SVG}text")}


for name in combinations:
    trace = json.loads((out / f"trace-{name}.json").read_text())
    kinds = {span["kind"] for span in trace["spans"]}
    assert "task" in kinds, f"trace-{name}.json has no task spans"
    root = ET.parse(out / f"gantt-{name}.svg").getroot()
    labels = texts(root)
    for lane in ["main"] + [f"worker {i}" for i in range(workers)]:
        assert lane in labels, f"gantt-{name}.svg has no lane `{lane}`"
    fills = [r.get("fill", "").lower() for r in root.iter(f"{SVG}rect")]
    assert len(fills) > 50, f"gantt-{name}.svg has only {len(fills)} rectangles"

compare = ET.parse(out / "compare.svg").getroot()
titles = " ".join(texts(compare))
for name in combinations:
    assert name.replace("-", "/") in titles, f"compare.svg does not name {name}"

with open(out / "table.csv", newline="") as file:
    rows = list(csv.DictReader(file))
assert len(rows) == 8, f"table.csv has {len(rows)} rows"
accuracies = {row["test_accuracy"] for row in rows}
assert len(accuracies) == 1 and float(accuracies.pop()) > 0, "accuracies differ"
table = json.loads((out / "table.json").read_text())
assert table, "table.json is empty"
report = (out / "report.html").read_text()
for name in combinations:
    assert name.replace("-", "/") in report, f"report.html does not name {name}"
assert "http://" not in report.replace("http://www.w3.org/", "") and "https://" not in report, \
    "report.html refers to the network"
print(f"checked {len(rows)} rows, {2 * len(combinations) + 1} figures and traces in {out}")
