// The picture: overview, axis, marks, lanes, and what is selected.

const OVERVIEW = 46;
const AXIS = 22;
const MARKS = 16;
const TITLE = 22;
const GAP = 3;
const LANE_HEIGHTS = [16, 72];
const FONT = 'system-ui, "Segoe UI", Helvetica, Arial, sans-serif';

class Scene {
  constructor(canvas, document, runs) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.keys = document.keys;
    this.runs = runs;
    this.camera = new Camera();
    this.hidden = new Uint8Array(this.keys.length);
    /** Per run, which spans a search found; null without a search. */
    this.found = null;
    /** The selected span or stretch of time: `{run, span}` or `{from, to}`. */
    this.selected = null;
    this.hover = null;
    this.scroll = 0;
    this.overviewImage = null;
    this.raster = null;
    this.setTheme("light");
  }

  setTheme(theme) {
    this.theme = theme;
    const style = getComputedStyle(window.document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = Object.fromEntries(
      ["page", "ink", "muted", "faint", "lane", "raised", "accent"].map((n) => [n, colour(n)]),
    );
    this.inks = new Inks(this.keys, theme, this.colours.lane);
    this.overviewImage = null;
  }

  /** What colours depend on, for a run. */
  look(run) {
    const found = this.found && this.found[this.runs.indexOf(run)];
    return { inks: this.inks, hidden: this.hidden, found };
  }

  /** Puts the runs on one axis: batch `batch` of each begins at 0, or with null the run does. */
  align(batch) {
    for (const run of this.runs) {
      const mark = run.batches().find(([, index]) => index === batch);
      run.zero = mark ? mark[0] : run.from;
    }
    const from = Math.min(...this.runs.map((run) => run.from - run.zero));
    const to = Math.max(...this.runs.map((run) => run.to - run.zero));
    this.camera.limit(from, to);
    this.overviewImage = null;
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    const box = this.canvas.parentElement.getBoundingClientRect();
    this.ratio = ratio;
    this.canvas.width = Math.floor(box.width * ratio);
    this.canvas.height = Math.floor(box.height * ratio);
    // A pixel of the canvas is one of the screen: else text and edges would be blurred.
    this.width = this.canvas.width / ratio;
    this.height = this.canvas.height / ratio;
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.overviewImage = null;
    this.layOut();
  }

  /** Where everything is, in pixels of the page. */
  layOut() {
    const { context } = this;
    context.font = `12px ${FONT}`;
    const names = this.runs.flatMap((run) => run.lanes.map((lane) => context.measureText(lane.name).width));
    this.left = Math.round(Math.min(Math.max(40, ...names) + 18, this.width / 4));
    this.right = this.width - 8;
    this.top = OVERVIEW + AXIS;
    const lanes = this.runs.reduce((sum, run) => sum + run.lanes.length, 0);
    const several = this.runs.length > 1;
    const extra = this.runs.reduce(
      (sum, run) => sum + (several ? TITLE : 0) + (run.head.marks.length ? MARKS : 0) + 8, 0);
    const room = (this.height - this.top - extra) / lanes - GAP;
    const laneHeight = Math.floor(Math.min(Math.max(room, LANE_HEIGHTS[0]), LANE_HEIGHTS[1]));
    this.rows = [];
    let y = 4;
    for (const run of this.runs) {
      const block = { run, title: several ? y : null, marks: null, lanes: [] };
      y += several ? TITLE : 0;
      if (run.head.marks.length) {
        block.marks = y;
        y += MARKS;
      }
      for (const index of run.head.order) {
        block.lanes.push({ lane: run.lanes[index], y, height: laneHeight });
        y += laneHeight + GAP;
      }
      block.bottom = y - GAP;
      y += 8;
      this.rows.push(block);
    }
    this.content = y;
    this.scrollTo(this.scroll);
  }

  scrollTo(y) {
    this.scroll = Math.min(Math.max(y, 0), Math.max(this.content - (this.height - this.top), 0));
  }

  x(time) {
    const { from, to } = this.camera;
    return this.left + ((time - from) / (to - from)) * (this.right - this.left);
  }

  time(x) {
    const { from, to } = this.camera;
    return from + ((x - this.left) / (this.right - this.left)) * (to - from);
  }

  /** The moment at a place of the overview. */
  overviewTime(x) {
    const [from, to] = this.camera.limits;
    return from + ((x - this.left) / (this.right - this.left)) * (to - from);
  }

  overviewX(time) {
    const [from, to] = this.camera.limits;
    return this.left + ((time - from) / (to - from)) * (this.right - this.left);
  }

  /** The lane at a height, with its run and place. */
  laneAt(y) {
    const inside = y - this.top + this.scroll;
    if (y < this.top) return null;
    for (const { run, lanes } of this.rows) {
      const row = lanes.find((lane) => inside >= lane.y && inside < lane.y + lane.height);
      if (row) return { run, ...row };
    }
    return null;
  }

  rowOf(run, lane) {
    return this.rows.find((block) => block.run === run).lanes.find((row) => row.lane === lane);
  }

  draw() {
    const { context, colours, ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, this.width, this.height);
    const wide = this.lanes();
    this.marks();
    this.labels(wide);
    this.selection();
    // What scrolled above the lanes is covered.
    context.fillStyle = colours.page;
    context.fillRect(0, 0, this.width, this.top);
    this.overview();
    this.axis();
  }

  /** Paints the lanes; returns the segments to be labelled. */
  lanes() {
    const { context, ratio, camera } = this;
    const x0 = Math.round(this.left * ratio);
    const width = Math.round(this.right * ratio) - x0;
    const height = this.canvas.height - Math.round(this.top * ratio);
    if (width < 1 || height < 1) return [];
    const raster = this.rasterOf(width, height);
    const step = (camera.to - camera.from) / width;
    const wide = [];
    this.eachLane((run, { lane, y, height: tall }) => {
      const top = Math.max(Math.round((y - this.scroll) * ratio), 0);
      const bottom = Math.min(Math.round((y - this.scroll + tall) * ratio), height);
      if (bottom <= top) return;
      const segments = raster.lane(lane, camera.from + run.zero, step, this.look(run), top, bottom);
      wide.push({ run, lane, y, tall, segments });
    });
    context.putImageData(raster.image, x0, Math.round(this.top * ratio));
    return wide;
  }

  /** An empty raster of this size; the same as in the frame before where that fits. */
  rasterOf(width, height) {
    if (this.raster?.width !== width || this.raster.height !== height) {
      this.raster = new Raster(width, height, this.keys.length);
    }
    this.raster.clear(pixel(...channels(this.colours.page)));
    return this.raster;
  }

  eachLane(visit) {
    for (const { run, lanes } of this.rows) lanes.forEach((row) => visit(run, row));
  }

  /** Names on segments and beside lanes, titles of runs. */
  labels(wide) {
    const { context, colours } = this;
    const place = (y) => y + this.top - this.scroll;
    context.textBaseline = "middle";
    context.font = `11px ${FONT}`;
    for (const { run, lane, y, tall, segments } of wide) {
      for (const k of segments) this.label(run, lane, k, place(y) + tall / 2);
    }
    context.fillStyle = colours.page;
    context.fillRect(0, this.top, this.left, this.height - this.top);
    for (const { run, title, lanes } of this.rows) {
      context.textAlign = "right";
      context.font = `12px ${FONT}`;
      context.fillStyle = colours.muted;
      for (const { lane, y, height } of lanes) {
        context.fillText(lane.name, this.left - 8, place(y) + height / 2, this.left - 12);
      }
      if (title === null) continue;
      context.textAlign = "left";
      context.font = `600 13px ${FONT}`;
      context.fillStyle = colours.ink;
      context.fillText(run.head.title, 8, place(title) + TITLE / 2);
    }
  }

  label(run, lane, k, middle) {
    const { context } = this;
    const x0 = Math.max(this.x(lane.start[k] - run.zero), this.left);
    const x1 = Math.min(this.x(lane.end[k] - run.zero), this.right);
    const key = lane.key[k];
    if (x1 - x0 < LABELLED || this.hidden[key]) return;
    const span = lane.span[k];
    const found = this.look(run).found;
    const rgb = this.inks.rgb[found && !found[span] ? key + this.keys.length : key];
    const bright = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 140;
    context.fillStyle = bright ? "#10141a" : "#ffffff";
    context.textAlign = "left";
    const name = run.cause(span) || run.name(span);
    const long = run.batch[span] < 0 ? name : `${name}  ${run.batch[span]}`;
    const text = [long, name].find((words) => context.measureText(words).width <= x1 - x0 - 8);
    if (text) context.fillText(text, x0 + 4, middle);
  }

  /** Lines of batches and epochs, and numbers above the lanes. */
  marks() {
    const { context, colours, camera } = this;
    for (const { run, marks, bottom, lanes } of this.rows) {
      if (marks === null || !lanes.length) continue;
      const row = marks + this.top - this.scroll;
      const end = bottom + this.top - this.scroll;
      const seen = (time) => time - run.zero >= camera.from && time - run.zero <= camera.to;
      const batches = run.head.marks.filter(([time, epoch]) => !epoch && seen(time));
      const apart = (this.right - this.left) / Math.max(batches.length, 1);
      const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4].find((s) => s * apart >= 42) || 1e5;
      context.textAlign = "left";
      context.font = `11px ${FONT}`;
      context.textBaseline = "middle";
      let free = -Infinity;
      for (const [time, epoch, index] of run.head.marks) {
        if (!seen(time) || (!epoch && index % step !== 0)) continue;
        const x = Math.round(this.x(time - run.zero));
        context.fillStyle = epoch ? colours.ink : colours.muted;
        context.globalAlpha = epoch ? 1 : 0.55;
        context.fillRect(x, row + 2, epoch ? 2 : 1, end - row - 2);
        context.globalAlpha = 1;
        const words = epoch ? `epoch ${index}` : String(index);
        if (x < free) continue;
        context.fillText(words, x + 4, row + MARKS / 2);
        free = x + 8 + context.measureText(words).width;
      }
      context.textAlign = "right";
      context.fillStyle = colours.muted;
      context.fillText("batch", this.left - 8, row + MARKS / 2);
    }
  }

  selection() {
    const { context, colours, selected, hover } = this;
    for (const [at, width] of [[hover, 1], [selected, 2]]) {
      if (!at || at.span === undefined) continue;
      const row = this.rowOf(at.run, at.run.laneOf(at.span));
      const y = row.y + this.top - this.scroll;
      const x0 = Math.max(this.x(at.run.start[at.span] - at.run.zero), this.left - 3);
      const x1 = Math.min(this.x(at.run.end[at.span] - at.run.zero), this.right + 3);
      if (x1 < this.left || x0 > this.right) continue;
      context.strokeStyle = width === 2 ? colours.accent : colours.ink;
      context.lineWidth = width;
      context.strokeRect(x0 - 0.5, y - 0.5, Math.max(x1 - x0, 1) + 1, row.height + 1);
    }
    if (selected && selected.from !== undefined) {
      const x0 = Math.max(this.x(selected.from), this.left);
      const x1 = Math.min(this.x(selected.to), this.right);
      context.fillStyle = colours.accent;
      context.globalAlpha = 0.16;
      context.fillRect(x0, this.top, Math.max(x1 - x0, 0), this.height - this.top);
      context.globalAlpha = 1;
    }
  }

  /** The whole of each run above the axis, and which part of it is seen. */
  overview() {
    const { context, colours, ratio } = this;
    const x0 = Math.round(this.left * ratio);
    const width = Math.round(this.right * ratio) - x0;
    const height = Math.round((OVERVIEW - 10) * ratio);
    if (width < 1) return;
    if (!this.overviewImage) {
      const raster = new Raster(width, height, this.keys.length);
      raster.clear(pixel(...channels(colours.page)));
      const [from, to] = this.camera.limits;
      this.runs.forEach((run, at) => {
        const top = Math.round((at * height) / this.runs.length) + (at ? 1 : 0);
        const bottom = Math.round(((at + 1) * height) / this.runs.length);
        raster.overview(run, from + run.zero, (to - from) / width, this.look(run), top, bottom);
      });
      this.overviewImage = raster.image;
    }
    context.putImageData(this.overviewImage, x0, Math.round(5 * ratio));
    const a = this.overviewX(this.camera.from);
    const b = Math.max(this.overviewX(this.camera.to), a + 2);
    context.fillStyle = colours.page;
    context.globalAlpha = 0.6;
    context.fillRect(this.left, 5, a - this.left, OVERVIEW - 10);
    context.fillRect(b, 5, this.right - b, OVERVIEW - 10);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.strokeRect(a, 4, b - a, OVERVIEW - 8);
    context.fillStyle = colours.muted;
    context.font = `11px ${FONT}`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText("workers", this.left - 8, OVERVIEW / 2, this.left - 12);
  }

  axis() {
    const { context, colours, camera } = this;
    context.font = `11px ${FONT}`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    const y = OVERVIEW + AXIS / 2;
    for (const [time, words] of ticks(camera.from, camera.to, (this.right - this.left) / 95)) {
      const x = Math.round(this.x(time));
      context.fillStyle = colours.muted;
      context.fillRect(x, this.top - 4, 1, 4);
      const half = context.measureText(words).width / 2;
      if (x - half >= this.left && x + half <= this.right) context.fillText(words, x, y);
    }
    context.fillStyle = colours.faint;
    context.fillRect(this.left, this.top - 1, this.right - this.left, 1);
    context.fillStyle = colours.muted;
    context.textAlign = "right";
    context.fillText("time", this.left - 8, y);
  }
}
