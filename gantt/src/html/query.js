// What is searched for.

/** Nanoseconds of `5ms`, `3us` and the like; NaN of anything else. */
function nanoseconds(text) {
  const found = /^([\d.]+)(ns|us|µs|ms|s)$/.exec(text);
  const units = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 };
  return found ? Number(found[1]) * units[found[2]] : NaN;
}

/** Words of the form `name:value`. Each makes a test of a span out of a run and the value. */
const FIELDS = {
  batch: (run, value) => (span) => run.batch[span] === Number(value),
  layer: (run, value) => (span) => run.layer[span] === Number(value),
  shard: (run, value) => (span) => run.shard[span] === Number(value),
  number: (run, value) => (span) => run.sequence[span] === Number(value),
  kind: (run, value) => (span) => SPAN_KINDS[run.kind(span)] === value,
  cause: (run, value) => (span) => run.cause(span).includes(value),
  lane: (run, value) => (span) => run.laneOf(span).name.includes(value),
  longer: (run, value) => (span) => run.end[span] - run.start[span] > nanoseconds(value),
  shorter: (run, value) => (span) => run.end[span] - run.start[span] < nanoseconds(value),
};

/** Which spans of a run a text finds: all its words must fit. Null for a text without words. */
function search(run, text) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const tests = words.map((word) => {
    const [field, value] = word.split(/:(.*)/);
    if (value !== undefined && FIELDS[field]) return FIELDS[field](run, value);
    const named = run.head.whats.map((what) => run.head.names[what[2]].toLowerCase().includes(word));
    return (span) => named[run.what[span]];
  });
  const found = new Uint8Array(run.spans);
  for (let span = 0; span < run.spans; span++) {
    found[span] = tests.every((test) => test(span)) ? 1 : 0;
  }
  return found;
}
