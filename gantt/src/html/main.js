// Joins the parts and draws whenever something changed.

class View {
  constructor(head, runs) {
    this.head = head;
    this.runs = runs;
    this.scene = new Scene(document.getElementById("chart"), head, runs);
    this.panel = new Panel(this.scene, () => this.changed());
    this.input = new Input(this);
    this.pending = false;
    this.last = null;
    this.finds = [];
    this.find = NOTHING;
    this.heading();
    this.scene.resize();
    this.controls();
    this.setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    this.panel.drawDetails();
    new ResizeObserver(() => {
      this.scene.resize();
      this.changed();
    }).observe(this.scene.canvas.parentElement);
  }

  heading() {
    document.getElementById("title").textContent = this.head.title;
    const facts = this.runs.length > 1
      ? [count(this.runs.length, "run")]
      : Object.entries(this.runs[0].head.meta).map(([name, value]) => `${name} ${value}`);
    const spans = this.runs.reduce((sum, run) => sum + run.spans, 0);
    document.getElementById("facts").textContent = [...facts, count(spans, "span")].join(" · ");
    const warnings = this.runs.flatMap((run) => run.head.warnings);
    document.getElementById("warnings").replaceChildren(
      ...warnings.map((words) => element("div", {}, words)));
  }

  controls() {
    const on = (id, event, act) => document.getElementById(id).addEventListener(event, act);
    this.searchField = document.getElementById("search");
    on("search", "input", () => this.search(this.searchField.value));
    on("search", "keydown", (event) => {
      if (event.key === "Enter") this.nextFind(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") this.scene.canvas.focus();
    });
    on("whole", "click", () => {
      this.scene.camera.showAll();
      this.changed();
    });
    on("theme", "click", () => this.toggleTheme());
    on("help", "click", () => this.showKeys());
    this.alignment();
  }

  /** The runs are put on one axis by a batch that all have, if there is any. */
  alignment() {
    const [first, ...others] = this.runs.map((run) => run.batches().map(([, index]) => index));
    const common = first.filter((index) => others.every((batches) => batches.includes(index)));
    const choice = document.getElementById("align");
    choice.replaceChildren(
      element("option", { value: "" }, "starts of runs"),
      ...common.map((index) => element("option", { value: index }, `batch ${index}`)));
    const several = this.runs.length > 1;
    document.getElementById("align-box").hidden = !several;
    const chosen = () => (choice.value === "" ? null : Number(choice.value));
    if (several && common.length) choice.value = String(common[0]);
    choice.addEventListener("change", () => {
      this.scene.align(chosen());
      this.scene.camera.showAll();
      this.select(null);
    });
    this.scene.align(chosen());
    this.scene.camera.showAll();
    const { view } = this.head;
    if (view) this.scene.camera.show(view[0] - this.runs[0].zero, view[1] - this.runs[0].zero);
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    this.scene.setTheme(theme);
    this.panel.drawLegend();
    this.panel.drawDetails();
    this.changed();
  }

  toggleTheme() {
    this.setTheme(this.scene.theme === "dark" ? "light" : "dark");
  }

  showKeys() {
    document.getElementById("keys").showModal();
  }

  focusSearch() {
    this.searchField.focus();
    this.searchField.select();
  }

  search(text) {
    const found = this.runs.map((run) => search(run, text));
    this.scene.found = found[0] ? found : null;
    this.scene.overviewImage = null;
    this.finds = this.runs.flatMap((run, at) =>
      found[at] ? [...found[at].keys()].filter((span) => found[at][span]).map((span) => ({ run, span })) : []);
    this.finds.sort((a, b) => a.run.start[a.span] - a.run.zero - (b.run.start[b.span] - b.run.zero));
    this.find = NOTHING;
    this.sayFinds();
    this.changed();
  }

  sayFinds() {
    const total = this.finds.length;
    const words = this.find === NOTHING ? count(total, "find") : `${this.find + 1} of ${total}`;
    document.getElementById("found").textContent = this.scene.found ? words : "";
  }

  nextFind(step) {
    const total = this.finds.length;
    if (!total) return;
    this.find = this.find === NOTHING && step < 0 ? total - 1 : (this.find + step + total) % total;
    this.select(this.finds[this.find]);
    this.revealSelection();
    this.sayFinds();
  }

  select(what) {
    this.scene.selected = what;
    this.panel.drawDetails();
    this.changed();
  }

  /** The ends of what is selected on the common axis. */
  selectedWindow() {
    const { selected } = this.scene;
    if (!selected) return null;
    const { run, span } = selected;
    return span === undefined
      ? [selected.from, selected.to]
      : [run.start[span] - run.zero, run.end[span] - run.zero];
  }

  frameSelection() {
    const window = this.selectedWindow();
    if (window) this.scene.camera.frame(...window);
  }

  revealSelection() {
    const { scene } = this;
    const { run, span } = scene.selected;
    scene.camera.reveal(...this.selectedWindow());
    const { y, height } = scene.rowOf(run, run.laneOf(span));
    if (y < scene.scroll) scene.scrollTo(y - 4);
    const room = scene.height - scene.top;
    if (y + height > scene.scroll + room) scene.scrollTo(y + height - room + 4);
    this.changed();
  }

  /** Selects the span before or after the selected one on its lane. */
  step(way) {
    const { selected } = this.scene;
    if (!selected || selected.span === undefined) return;
    const lane = selected.run.laneOf(selected.span);
    const span = selected.span + way;
    if (span < lane.first || span >= lane.last) return;
    this.select({ run: selected.run, span });
    this.revealSelection();
  }

  /** Draws before the next frame is shown. */
  changed() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.pending = false;
    const seconds = this.last === null ? 0 : Math.min((now - this.last) / 1e3, 0.1);
    const moving = this.scene.camera.advance(seconds, this.input.focusTime());
    this.last = moving ? now : null;
    this.scene.draw();
    if (moving) this.changed();
  }
}

async function start() {
  const head = JSON.parse(document.getElementById("head").textContent);
  const runs = [];
  for (const [index, run] of head.runs.entries()) {
    runs.push(new Run(run, await inflate(`run-${index}`), head.keys.length));
  }
  // For the console, and for tests.
  window.gantt = new View(head, runs);
  document.getElementById("loading").hidden = true;
}

start().catch((error) => {
  const place = document.getElementById("loading");
  place.classList.add("failed");
  place.textContent = `The trace cannot be shown: ${error.message}`;
  throw error;
});
