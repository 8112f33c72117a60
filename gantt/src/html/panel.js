// What is written around the picture: legend, tooltip, details, the comparison of runs.

const GROUPS = [["tasks", "tasks"], ["idle", "worker asleep"], ["waits", "main waits"]];

function swatch(colour) {
  return element("i", { class: "swatch", style: `background:${colour}` });
}

class Panel {
  constructor(scene, changed) {
    this.scene = scene;
    this.changed = changed;
    this.legend = document.getElementById("legend");
    this.details = document.getElementById("details");
    this.tooltip = document.getElementById("hover");
  }

  colour(key) {
    return this.scene.keys[key][this.scene.theme];
  }

  drawLegend() {
    const { scene } = this;
    const totals = scene.runs.map((run) => run.workerTimes(run.from, run.to));
    const whole = totals.reduce((sum, run) => sum + run.whole, 0);
    const chips = [];
    for (const [group, title] of GROUPS) {
      const keys = scene.keys.flatMap((key, index) => (key.group === group ? [index] : []));
      if (keys.length) chips.push(element("span", {}, title));
      for (const key of keys) {
        const time = totals.reduce((sum, run) => sum + run.sums[key], 0);
        const share = group === "waits" || !whole ? "" : ` ${percent(time / whole)}`;
        chips.push(element(
          "button",
          {
            "aria-pressed": String(!scene.hidden[key]),
            title: "Click to hide, Shift and click to see it alone",
            onclick: (event) => this.toggle(key, event.shiftKey),
          },
          swatch(this.colour(key)), scene.keys[key].label, element("small", {}, share),
        ));
      }
    }
    chips.push(element("span", {}, element("i", { class: "swatch rest" }), "scheduling; on main, the program"));
    this.legend.replaceChildren(...chips);
  }

  toggle(key, alone) {
    const { hidden } = this.scene;
    if (alone) {
      const only = !hidden[key] && hidden.every((h, k) => h || k === key);
      hidden.forEach((_, k) => (hidden[k] = only || k === key ? 0 : 1));
    } else {
      hidden[key] = 1 - hidden[key];
    }
    this.scene.overviewImage = null;
    this.drawLegend();
    this.changed();
  }

  /** Shows what is under the pointer, beside it. */
  showHover(at, x, y) {
    const { tooltip } = this;
    tooltip.hidden = !at;
    if (!at) return;
    tooltip.replaceChildren(...(at.span === undefined ? this.crowd(at) : this.span(at)));
    const room = tooltip.parentElement.getBoundingClientRect();
    const box = tooltip.getBoundingClientRect();
    const left = x + 16 + box.width > room.width ? Math.max(x - 16 - box.width, 4) : x + 16;
    tooltip.style.left = `${Math.min(left, Math.max(room.width - box.width - 4, 4))}px`;
    tooltip.style.top = `${Math.max(Math.min(y + 14, room.height - box.height - 4), 2)}px`;
  }

  span({ run, span }) {
    const key = run.keyOf[run.what[span]];
    const title = element("div", { class: "name" }, swatch(this.colour(key)), run.name(span));
    return [title, factList(run.facts(span))];
  }

  /** Many spans in one column of pixels: their shares. */
  crowd({ run, lane, from, to, spans }) {
    const sums = new Float64Array(this.scene.keys.length);
    lane.addWindow(sums, 0, from, to);
    const title = `${count(spans, "span")} in ${duration(to - from)}`;
    return [element("div", { class: "name" }, title), factList([
      ["lane", lane.name],
      ["around", moment((from + to) / 2 - run.zero)],
      ...this.shares(sums, to - from).slice(0, 6),
    ])];
  }

  /** Where a length of time went, the largest parts first. */
  shares(sums, whole) {
    const { keys } = this.scene;
    const parts = [...sums].map((time, key) => [time, key]).filter(([time]) => time > 0);
    parts.sort((a, b) => b[0] - a[0]);
    return parts.map(([time, key]) => {
      const asleep = keys[key].group === "tasks" ? "" : "asleep: ";
      return [`${asleep}${keys[key].label}`, `${percent(time / whole)}  (${duration(time)})`];
    });
  }

  drawDetails() {
    const { selected, runs } = this.scene;
    const parts = selected && selected.span !== undefined ? this.selectedSpan(selected)
      : selected ? runs.map((run) => this.stretch(run, selected.from + run.zero, selected.to + run.zero))
      : runs.length > 1 ? [this.comparison()]
      : [this.stretch(runs[0], runs[0].from, runs[0].to)];
    this.details.replaceChildren(element("div", { class: "columns" }, ...parts));
  }

  stretch(run, from, to) {
    const { sums, whole } = run.workerTimes(from, to);
    const title = this.scene.runs.length > 1 ? `${run.head.title}: ` : "";
    const rest = whole - sums.reduce((sum, time) => sum + time, 0);
    const scheduling = whole ? [["scheduling", `${percent(rest / whole)}  (${duration(rest)})`]] : [];
    const heading = `${title}${duration(to - from)}, time of ${count(run.workers.length, "worker")}`;
    return element("section", { class: "wide" }, element("h2", {}, heading), factList([...this.shares(sums, whole), ...scheduling]));
  }

  selectedSpan({ run, span }) {
    const same = [];
    for (let other = 0; other < run.spans; other++) {
      if (run.what[other] === run.what[span]) same.push(run.end[other] - run.start[other]);
    }
    same.sort((a, b) => a - b);
    const length = run.end[span] - run.start[span];
    const shorter = firstWhere(same.length, (i) => same[i] >= length);
    const at = (share) => duration(same[Math.min(Math.floor(share * same.length), same.length - 1)]);
    return [
      element("section", {}, ...this.span({ run, span })),
      element("section", {}, element("h2", {}, `All ${count(same.length, "span")} of this kind`), factList([
        ["total", duration(same.reduce((sum, time) => sum + time, 0))],
        ["median", at(0.5)],
        ["99 %", at(0.99)],
        ["longest", at(1)],
        ["this one", `longer than ${percent(shorter / same.length)} of them`],
      ])),
    ];
  }

  /** The first two runs side by side, and how they differ. */
  comparison() {
    const { runs, keys } = this.scene;
    const [a, b] = runs;
    const times = [a, b].map((run) => run.workerTimes(run.from, run.to));
    const rest = times.map(({ sums, whole }) => whole - sums.reduce((sum, time) => sum + time, 0));
    const rows = [["makespan", a.to - a.from, b.to - b.from, true]];
    keys.forEach((key, index) => {
      const [x, y] = times.map(({ sums }) => sums[index]);
      const asleep = key.group === "tasks" ? "" : "asleep: ";
      if (x || y) rows.push([`${asleep}${key.label}`, x, y, true, index]);
    });
    rows.push(["scheduling", ...rest, true]);
    const cells = rows.map(([name, x, y, , key]) => {
      const change = x ? `${y >= x ? "+" : "−"}${percent(Math.abs(y - x) / x)}` : "";
      return element("tr", {},
        element("td", {}, ...(key === undefined ? [] : [swatch(this.colour(key))]), name),
        element("td", { class: "n" }, duration(x)), element("td", { class: "n" }, duration(y)),
        element("td", { class: y > x ? "n worse" : "n" }, `${y >= x ? "+" : "−"}${duration(Math.abs(y - x))}`),
        element("td", { class: "n" }, change));
    });
    const head = ["", a.head.title, b.head.title, "difference", ""].map(
      (words, at) => element("th", at ? { class: "n" } : {}, words));
    return element("section", {}, element("h2", {}, "Where the workers' time went"),
      element("table", { id: "difference" }, element("tr", {}, ...head), ...cells));
  }
}
