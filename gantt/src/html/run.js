// One trace: its spans, and where the time of each lane went.

const TASK = 0;
const SPAN_KINDS = ["task", "idle", "wait"];
/** Every so many segments a lane knows the sums up to there. */
const STRIDE = 32;
const NOTHING = -1;

/** A lane whose time is cut into segments that do not overlap: the innermost span owns its time. */
class Lane {
  constructor(run, index, first, last) {
    const { name, kind } = run.head.lanes[index];
    Object.assign(this, { run, index, first, last, name, worker: kind === "worker" });
    this.cut();
    this.sumUp(run.keys);
  }

  /** Makes `start`, `end` and `span` of the segments. Spans come outer ones first. */
  cut() {
    const { first, last, run } = this;
    const room = 2 * (last - first);
    const start = new Float64Array(room);
    const end = new Float64Array(room);
    const span = new Uint32Array(room);
    const open = [];
    let now = 0;
    let count = 0;
    const advance = (until) => {
      while (open.length) {
        const top = open[open.length - 1];
        const stop = Math.min(run.end[top], until);
        if (stop > now) {
          start[count] = now;
          end[count] = stop;
          span[count++] = top;
          now = stop;
        }
        if (run.end[top] > until) break;
        open.pop();
      }
    };
    for (let i = first; i < last; i++) {
      advance(run.start[i]);
      now = run.start[i];
      open.push(i);
    }
    advance(Infinity);
    this.count = count;
    this.start = start.slice(0, count);
    this.end = end.slice(0, count);
    this.span = span.slice(0, count);
    this.key = Uint8Array.from(this.span, (s) => run.keyOf[run.what[s]]);
  }

  /** Times per key up to every `STRIDE`-th segment. */
  sumUp(keys) {
    this.keys = keys;
    this.checks = new Float64Array((Math.floor(this.count / STRIDE) + 1) * keys);
    const sums = new Float64Array(keys);
    for (let i = 0; i < this.count; i++) {
      if (i % STRIDE === 0) this.checks.set(sums, (i / STRIDE) * keys);
      sums[this.key[i]] += this.end[i] - this.start[i];
    }
    if (this.count % STRIDE === 0) this.checks.set(sums, (this.count / STRIDE) * keys);
  }

  /** The first segment that ends after `time`. */
  after(time) {
    return firstWhere(this.count, (i) => this.end[i] > time);
  }

  /** The segment at a time, or `NOTHING`. */
  at(time) {
    const i = this.after(time);
    return i < this.count && this.start[i] <= time ? i : NOTHING;
  }

  /**
   * Adds the time of the segments from `i` to before `j`, clipped to a window: that of key `k`
   * to `sums[base + k]`.
   */
  add(sums, base, i, j, from, to) {
    if (i >= j) return;
    const { start, end, key, keys, checks } = this;
    // Only the outermost segments may reach beyond the window.
    sums[base + key[i]] -= Math.max(from - start[i], 0);
    sums[base + key[j - 1]] -= Math.max(end[j - 1] - to, 0);
    const left = Math.ceil(i / STRIDE);
    const right = Math.floor(j / STRIDE);
    if (right - left < 2) {
      for (let k = i; k < j; k++) sums[base + key[k]] += end[k] - start[k];
      return;
    }
    for (let k = i; k < left * STRIDE; k++) sums[base + key[k]] += end[k] - start[k];
    for (let c = 0; c < keys; c++) sums[base + c] += checks[right * keys + c] - checks[left * keys + c];
    for (let k = right * STRIDE; k < j; k++) sums[base + key[k]] += end[k] - start[k];
  }

  /** Adds the time per key inside a window. */
  addWindow(sums, base, from, to) {
    const j = firstWhere(this.count, (k) => this.start[k] >= to);
    this.add(sums, base, this.after(from), j, from, to);
  }
}

/** The first index below `count` for which `test` holds, which holds for all after it too. */
function firstWhere(count, test) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

class Run {
  /** `keys` is the number of colours. */
  constructor(head, bytes, keys) {
    this.head = head;
    this.keys = keys;
    this.keyOf = Uint8Array.from(head.whats, (what) => what[3]);
    this.spans = head.lanes.reduce((sum, lane) => sum + lane.spans, 0);
    this.read(new Numbers(bytes));
    this.lanes = [];
    let first = 0;
    head.lanes.forEach((lane, index) => {
      this.lanes.push(new Lane(this, index, first, first + lane.spans));
      first += lane.spans;
    });
    this.workers = this.lanes.filter((lane) => lane.worker);
    [this.from, this.to] = head.window;
    /** The moment of the run that is 0 on the common axis. */
    this.zero = this.from;
  }

  read(numbers) {
    const n = this.spans;
    this.start = new Float64Array(n);
    this.end = new Float64Array(n);
    this.what = new Uint32Array(n);
    this.batch = new Float64Array(n);
    this.layer = new Int32Array(n);
    this.shard = new Int32Array(n);
    this.sequence = new Float64Array(n);
    numbers.sums(this.start);
    for (let i = 0; i < n; i++) this.end[i] = this.start[i] + numbers.next();
    for (let i = 0; i < n; i++) this.what[i] = numbers.next();
    for (const column of [this.batch, this.layer, this.shard, this.sequence]) numbers.sums(column);
  }

  kind(span) {
    return this.head.whats[this.what[span]][0];
  }

  name(span) {
    return this.head.names[this.head.whats[this.what[span]][2]];
  }

  /** The words for the cause of an idle span or a wait; empty for a task. */
  cause(span) {
    return this.head.whats[this.what[span]][1];
  }

  laneOf(span) {
    return this.lanes.find((lane) => span >= lane.first && span < lane.last);
  }

  /** What is known of a span, as pairs of a name and a value. */
  facts(span) {
    const known = (column) => (column[span] < 0 ? undefined : String(column[span]));
    return [
      ["kind", SPAN_KINDS[this.kind(span)]],
      ["cause", this.cause(span)],
      ["lane", this.laneOf(span).name],
      ["batch", known(this.batch)],
      ["layer", known(this.layer)],
      ["shard", known(this.shard)],
      ["submitted as", this.sequence[span] < 0 ? undefined : `number ${this.sequence[span]}`],
      ["start", moment(this.start[span] - this.zero)],
      ["end", moment(this.end[span] - this.zero)],
      ["duration", duration(this.end[span] - this.start[span])],
    ];
  }

  /** Times per key of the workers inside a window, and what they had altogether. */
  workerTimes(from, to) {
    const sums = new Float64Array(this.keys);
    for (const lane of this.workers) lane.addWindow(sums, 0, from, to);
    return { sums, whole: (to - from) * this.workers.length };
  }

  /** Batch marks as pairs of a time and a number. */
  batches() {
    return this.head.marks.filter(([, epoch]) => !epoch).map(([time, , index]) => [time, index]);
  }
}
