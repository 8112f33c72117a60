// Times and shares in words.

/** A length of time with three to four digits. */
function duration(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${digits(ns / 1e3)} µs`;
  if (size < 1e9) return `${digits(ns / 1e6)} ms`;
  return `${digits(ns / 1e9)} s`;
}

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
}

/** A moment to the nanosecond, in milliseconds. */
function moment(ns) {
  return `${(ns / 1e6).toFixed(6)} ms`;
}

function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(share * 100).toFixed(share < 0.0995 && share > 0 ? 1 : 0)} %`;
}

function count(number, one) {
  return `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
}

/** Round moments between `from` and `to`, about `wanted` of them, and their words. */
function ticks(from, to, wanted) {
  const least = Math.max((to - from) / Math.max(wanted, 1), 1);
  const decade = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((f) => f * decade).find((s) => s >= least * 0.999);
  const [unit, name] = step >= 1e9 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : step >= 100 ? [1e3, "µs"] : [1, "ns"];
  const decimals = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
  const out = [];
  for (let n = Math.ceil(from / step); n * step <= to; n++) {
    out.push([n * step, `${((n * step) / unit).toFixed(decimals)} ${name}`]);
  }
  return out;
}

/** An element with attributes and children; a child that is not an element is text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** A list of facts; those without a value are left out. */
function factList(facts) {
  const known = facts.filter(([, value]) => value !== undefined && value !== null && value !== "");
  const rows = known.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  return element("dl", { class: "facts" }, ...rows);
}
