// The interactive page in a real browser. PAGES is the folder that the example `pages` fills,
// CHROMIUM the browser.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const MS = 1e6;
let browser;

before(async () => {
  const args = ["--no-sandbox"];
  browser = await chromium.launch({ executablePath: await program(process.env.CHROMIUM), args });
});

after(() => browser?.close());

/** The path of a program that is named as in a shell. */
async function program(name) {
  const { access, constants } = await import("node:fs/promises");
  const folders = name.includes("/") ? [""] : process.env.PATH.split(":");
  for (const folder of folders) {
    const file = path.join(folder, name);
    if (await access(file, constants.X_OK).then(() => true, () => false)) return file;
  }
  throw new Error(`there is no program ${name}`);
}

/** Runs `body` on a page; fails on any console error, script error or request but the page's. */
async function onPage(name, options, body) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 760 }, colorScheme: "light", ...options });
  const url = pathToFileURL(path.join(process.env.PAGES, name)).href;
  const wrong = [];
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => request.url() !== url && !request.url().startsWith("data:") && wrong.push(`asks for ${request.url()}`));
  await page.goto(url);
  await page.waitForFunction(() => window.gantt && document.getElementById("loading").hidden);
  await body(page);
  assert.deepEqual(wrong, []);
  await page.close();
}

/** A place on the chart: a moment of the first run, in its own time, on a lane. */
function place(page, lane, time) {
  return page.evaluate(([lane, time]) => {
    const { scene } = window.gantt;
    const run = scene.runs[0];
    const row = scene.rowOf(run, run.lanes[lane]);
    const box = scene.canvas.getBoundingClientRect();
    return [box.left + scene.x(time - run.zero), box.top + scene.top - scene.scroll + row.y + row.height / 2];
  }, [lane, time]);
}

/** The colour of the picture at a place, as red, green, blue. */
function colourAt(page, [x, y]) {
  return page.evaluate(([x, y]) => {
    const { scene } = window.gantt;
    scene.draw();
    const box = scene.canvas.getBoundingClientRect();
    const at = [x - box.left, y - box.top].map((v) => Math.round(v * scene.ratio));
    return [...scene.context.getImageData(...at, 1, 1).data].slice(0, 3);
  }, [x, y]);
}

const seen = (page) => page.evaluate(() => [window.gantt.scene.camera.from, window.gantt.scene.camera.to]);

async function hover(page, lane, time) {
  await page.mouse.move(...(await place(page, lane, time)));
  return (await page.locator("#hover").innerText()).replaceAll(/\s+/g, " ");
}

test("the first look says what and how long", () => onPage("known.html", {}, async (page) => {
  assert.equal(await page.locator("h1").innerText(), "known <b>&amp;</b>");
  assert.match(await page.locator("#facts").innerText(), /batch size 10 · workers 2 · 8 spans/);
  const details = await page.locator("#details").innerText();
  assert.match(details, /10\.00 ms, time of 2 workers/);
  // 4 ms of which the body waited for 1 ms, and 2.5 ms.
  assert.match(details, /conv2d\.forward\s+28 %\s+\(5\.500 ms\)/);
  assert.match(details, /dense\.backward\s+40 %\s+\(8\.000 ms\)/);
  assert.match(details, /asleep: no ready task\s+15 %\s+\(3\.000 ms\)/);
  assert.match(details, /asleep: acquire\s+5\.0 %\s+\(1\.000 ms\)/);
  assert.match(details, /scheduling\s+13 %\s+\(2\.500 ms\)/);
}));

test("hovering tells everything that is known of a span", () => onPage("known.html", {}, async (page) => {
  assert.equal(await hover(page, 2, 3.2 * MS), "conv2d.forward kind task lane worker 1 batch 4 layer 2 shard 1 " +
    "submitted as number 71 start 0.500000 ms end 3.000000 ms duration 2.500 ms");
  assert.equal(await hover(page, 2, 5 * MS), "no ready task kind idle cause no ready task lane worker 1 " +
    "start 3.000000 ms end 6.000000 ms duration 3.000 ms");
  // The innermost span owns its time.
  assert.match(await hover(page, 1, 2.5 * MS), /cause acquire/);
  assert.match(await hover(page, 1, 4 * MS), /number 70/);
  const [x, y] = await place(page, 2, 11 * MS);
  await page.mouse.move(x + 8, y);
  assert.equal(await page.locator("#hover").isVisible(), false);
}));

test("the wheel zooms at the pointer, dragging moves", () => onPage("known.html", {}, async (page) => {
  const [from, to] = await seen(page);
  const [x, y] = await place(page, 1, 4 * MS);
  await page.mouse.move(x, y);
  await page.mouse.wheel(0, -300);
  await page.waitForFunction((span) => window.gantt.scene.camera.to - window.gantt.scene.camera.from < span / 1.8, to - from);
  const [again] = await place(page, 1, 4 * MS);
  assert.ok(Math.abs(again - x) < 1, "what was under the pointer stays there");
  const before = await seen(page);
  await page.mouse.down();
  await page.mouse.move(x - 100, y, { steps: 4 });
  await page.mouse.up();
  const moved = await seen(page);
  assert.ok(moved[0] > before[0], "dragging to the left shows what is later");
  assert.ok(Math.abs((moved[1] - moved[0]) / (before[1] - before[0]) - 1) < 1e-9);
  const [after] = await place(page, 1, 4 * MS);
  assert.ok(Math.abs(after - (x - 100)) < 1.5);
}));

test("W, S, A and D zoom and move while they are held", () => onPage("known.html", {}, async (page) => {
  const held = async (key, done) => {
    await page.keyboard.down(key);
    await page.waitForFunction(done[0], done[1]);
    await page.keyboard.up(key);
  };
  const [from, to] = await seen(page);
  await held("w", [(span) => window.gantt.scene.camera.to - window.gantt.scene.camera.from < span / 2, to - from]);
  const [left] = await seen(page);
  await held("a", [(left) => window.gantt.scene.camera.from < left, left]);
  const [further] = await seen(page);
  await held("d", [(left) => window.gantt.scene.camera.from > left, further]);
  await held("s", [(span) => window.gantt.scene.camera.to - window.gantt.scene.camera.from > span * 0.999, to - from]);
  await page.keyboard.press("w");
  await page.keyboard.press("0");
  assert.deepEqual(await seen(page), [from, to]);
}));

test("a click selects; arrows, F and Escape go on from there", () => onPage("known.html", {}, async (page) => {
  await page.mouse.click(...(await place(page, 2, 2 * MS)));
  assert.match(await page.locator("#details").innerText(), /All 2 spans of this kind/);
  await page.keyboard.press("ArrowRight");
  assert.match(await page.locator("#details").innerText(), /no ready task/);
  await page.keyboard.press("f");
  const [from, to] = await seen(page);
  assert.ok(from > 2.4 * MS && from < 3 * MS && to > 6 * MS && to < 6.6 * MS, `${from} ${to}`);
  await page.keyboard.press("Escape");
  assert.match(await page.locator("#details").innerText(), /time of 2 workers/);
}));

test("a stretch of time tells where it went", () => onPage("known.html", {}, async (page) => {
  const [start, y] = await place(page, 1, 4 * MS);
  const [end] = await place(page, 1, 7 * MS);
  await page.keyboard.down("Shift");
  await page.mouse.move(start, y);
  await page.mouse.down();
  await page.mouse.move(end, y, { steps: 3 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  const details = await page.locator("#details").innerText();
  // Half of it worker 1 slept, and worker 0 worked.
  assert.match(details, /asleep: no ready task\s+50 %/);
  assert.match(details, /conv2d\.forward\s+17 %/);
  assert.match(details, /dense\.backward\s+33 %/);
}));

test("search counts, fades the rest and goes through the finds", () => onPage("known.html", {}, async (page) => {
  const at = await place(page, 1, 4.5 * MS);
  const plain = await colourAt(page, at);
  await page.keyboard.press("/");
  await page.keyboard.type("dense");
  assert.equal(await page.locator("#found").innerText(), "3 finds");
  assert.notDeepEqual(await colourAt(page, at), plain, "what was not found is faded");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("#found").innerText(), "1 of 3");
  assert.match(await page.locator("#details").innerText(), /number 72/);
  for (const [text, finds] of [["batch:5", "2 finds"], ["cause:ready", "1 find"], ["longer:3.5ms", "3 finds"],
    ["conv lane:0", "1 find"], ["kind:wait shorter:2ms", "1 find"], ["nothing", "0 finds"], ["", ""]]) {
    await page.fill("#search", text);
    assert.equal(await page.locator("#found").innerText(), finds, text);
  }
  assert.deepEqual(await colourAt(page, at), plain);
}));

test("the legend hides kinds and themes change colours", () => onPage("known.html", {}, async (page) => {
  const at = await place(page, 2, 5 * MS);
  const red = await colourAt(page, at);
  assert.ok(red[0] > red[1] + 60 && red[0] > red[2] + 60, `sleep is red: ${red}`);
  const chip = page.locator("#legend button", { hasText: "no ready task" });
  await chip.click();
  assert.deepEqual(await colourAt(page, at), [238, 240, 243]);
  assert.equal(await chip.getAttribute("aria-pressed"), "false");
  await chip.click();
  await chip.click({ modifiers: ["Shift"] });
  assert.deepEqual(await colourAt(page, await place(page, 1, 4.5 * MS)), [238, 240, 243]);
  assert.deepEqual(await colourAt(page, at), red);
  await page.click("#theme");
  const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(dark, "rgb(20, 23, 28)");
}));

test("two runs are aligned on a batch and compared", () => onPage("two.html", {}, async (page) => {
  assert.equal(await page.locator("#align").inputValue(), "4");
  const rows = (await page.locator("#difference").innerText()).split("\n").map((row) => row.split("\t").map((cell) => cell.trim()));
  assert.deepEqual(rows[0].slice(1, 4), ["known <b>&amp;</b>", "later", "difference"]);
  assert.deepEqual(rows[1], ["makespan", "10.00 ms", "20.00 ms", "+10.00 ms", "+100 %"]);
  const dense = rows.find(([name]) => name === "dense.backward");
  assert.deepEqual(dense.slice(1), ["8.000 ms", "16.00 ms", "+8.000 ms", "+100 %"]);
  await page.selectOption("#align", "5");
  const zeros = await page.evaluate(() => window.gantt.runs.map((run) => run.zero));
  assert.deepEqual(zeros, [6_500_000, 13_000_500]);
}));

test("a page may open at some batches, and says what is missing", () => onPage("sixteen.html", {}, async (page) => {
  assert.match(await page.locator("#warnings").innerText(), /3 spans were lost/);
  const [[from, to], batch, limits] = await page.evaluate(() => {
    const { scene, runs } = window.gantt;
    const time = (wanted) => runs[0].batches().find(([, index]) => index === wanted)[0] - runs[0].zero;
    return [[scene.camera.from, scene.camera.to], [time(10), time(12)], scene.camera.limits];
  });
  assert.ok(Math.abs(from - batch[0]) < 2 && to >= batch[1] && to < limits[1] / 3);
}));

test("nothing is cut off at 400 pixels, and touch moves", () => onPage("known.html", { viewport: { width: 400, height: 700 }, hasTouch: true }, async (page) => {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 400, `${wide}`);
  await page.touchscreen.tap(...(await place(page, 1, 7 * MS)));
  assert.match(await page.locator("#details").innerText(), /number 72/);
  await hover(page, 2, 10 * MS);
  const box = await page.locator("#hover").boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 400, JSON.stringify(box));
}));

test("of a million spans, the area of red is the time asleep", (context) => onPage("million.html", {}, async (page) => {
  const { asleep, red, frame } = await page.evaluate(() => {
    const { scene, runs: [run] } = window.gantt;
    const { sums } = run.workerTimes(run.from, run.to);
    const asleep = sums.reduce((sum, time, key) => sum + (scene.keys[key].group === "idle" ? time : 0), 0);
    scene.draw();
    // The areas of the lanes, of all workers.
    const whole = (scene.camera.to - scene.camera.from) * run.workers.length;
    const reds = new Set([...scene.inks.pixels].filter((_, key) => key < scene.keys.length && scene.keys[key].group === "idle"));
    let red = 0;
    let all = 0;
    scene.eachLane((_, { lane, y, height }) => {
      if (!lane.worker) return;
      const top = Math.round((scene.top + y - scene.scroll) * scene.ratio);
      const [x0, x1] = [scene.left, scene.right].map((x) => Math.round(x * scene.ratio));
      const data = scene.context.getImageData(x0, top, x1 - x0, Math.round(height * scene.ratio)).data;
      for (const colour of new Uint32Array(data.buffer)) {
        red += reds.has(colour) ? 1 : 0;
        all += 1;
      }
    });
    const start = performance.now();
    for (let i = 0; i < 20; i++) scene.draw();
    return { asleep: asleep / whole, red: red / all, frame: (performance.now() - start) / 20 };
  });
  assert.ok(Math.abs(asleep - red) < 0.01, `${asleep} ${red}`);
  context.diagnostic(`a frame of a million spans: ${frame.toFixed(1)} ms`);
  const crowd = await hover(page, 3, 600 * MS);
  assert.match(crowd, /\d+ spans in \d+(\.\d+)? (µs|ms)/);
  await page.mouse.wheel(0, -240);
  await page.waitForFunction(() => window.gantt.scene.camera.to - window.gantt.scene.camera.from < 1e9);
}));
