// Pointer, wheel, touch and keys.

/** Pixels within which a short span is still met by the pointer. */
const REACH = 3;

class Input {
  /** `view` has the scene, the panel, `changed()` and `select(what)`. */
  constructor(view) {
    this.view = view;
    this.scene = view.scene;
    this.pointers = new Map();
    this.pointer = { x: 0, y: 0 };
    this.drag = null;
    const { canvas } = this.scene;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => this.up(event));
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    window.addEventListener("keydown", (event) => this.key(event, true));
    window.addEventListener("keyup", (event) => this.key(event, false));
    window.addEventListener("blur", () => (this.scene.camera.held = { zoom: 0, pan: 0 }));
  }

  place(event) {
    const box = this.scene.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  /** What is at a place: a span, a crowd of spans too short to be told apart, or nothing. */
  at({ x, y }) {
    const { scene } = this;
    const row = scene.laneAt(y);
    if (!row || x < scene.left || x > scene.right) return null;
    const { run, lane } = row;
    const step = (scene.camera.to - scene.camera.from) / (scene.right - scene.left);
    const time = scene.time(x) + run.zero;
    const hit = lane.at(time);
    if (hit !== NOTHING && lane.end[hit] - lane.start[hit] >= step) return { run, span: lane.span[hit] };
    const first = lane.after(time - step * REACH);
    const last = firstWhere(lane.count, (k) => lane.start[k] >= time + step * REACH);
    if (last - first > MIXED) {
      return { run, lane, from: time - step / 2, to: time + step / 2, spans: this.inColumn(lane, time, step) };
    }
    const near = [...Array(Math.max(last - first, 0)).keys()].map((k) => first + k);
    const away = (k) => Math.max(lane.start[k] - time, time - lane.end[k], 0);
    near.sort((a, b) => away(a) - away(b));
    return near.length ? { run, span: lane.span[near[0]] } : null;
  }

  inColumn(lane, time, step) {
    return firstWhere(lane.count, (k) => lane.start[k] >= time + step / 2) - lane.after(time - step / 2);
  }

  hover(place) {
    const at = place && this.at(place);
    this.scene.hover = at && at.span !== undefined ? at : null;
    this.view.panel.showHover(at, place?.x, place?.y);
    this.view.changed();
  }

  down(event) {
    const place = this.place(event);
    this.pointer = place;
    this.pointers.set(event.pointerId, place);
    this.scene.canvas.setPointerCapture(event.pointerId);
    this.scene.canvas.focus({ preventScroll: true });
    const time = this.scene.time(place.x);
    if (place.y < OVERVIEW) {
      this.drag = { kind: "overview" };
      this.overview(place);
    } else if (event.shiftKey || place.y < OVERVIEW + AXIS) {
      this.drag = { kind: "stretch", time, start: place };
    } else {
      this.drag = { kind: "move", start: place, moved: false };
    }
    this.hover(null);
  }

  /** Brings the middle of what is seen to a place of the overview. */
  overview({ x }) {
    const { camera } = this.scene;
    const half = (camera.to - camera.from) / 2;
    const time = this.scene.overviewTime(x);
    camera.show(time - half, time + half);
    this.view.changed();
  }

  move(event) {
    const place = this.place(event);
    const before = this.pointers.get(event.pointerId);
    this.pointer = place;
    if (!before) {
      this.hover(place);
      return;
    }
    if (this.pointers.size === 2) this.pinch(event.pointerId, before, place);
    else if (this.drag?.kind === "overview") this.overview(place);
    else if (this.drag?.kind === "stretch") this.stretch(place);
    else if (this.drag?.kind === "move") this.pull(before, place);
    this.pointers.set(event.pointerId, place);
  }

  pull(before, place) {
    const { scene, drag } = this;
    const far = Math.hypot(place.x - drag.start.x, place.y - drag.start.y);
    drag.moved ||= far > 4;
    if (!drag.moved) return;
    scene.camera.pan((before.x - place.x) / (scene.right - scene.left));
    scene.scrollTo(scene.scroll + before.y - place.y);
    this.view.changed();
  }

  stretch(place) {
    const time = this.scene.time(Math.min(Math.max(place.x, this.scene.left), this.scene.right));
    const [from, to] = [Math.min(time, this.drag.time), Math.max(time, this.drag.time)];
    if (Math.abs(place.x - this.drag.start.x) > 2) this.view.select({ from, to });
  }

  /** Two fingers: what was under each stays under it. */
  pinch(id, before, place) {
    const { scene } = this;
    const other = [...this.pointers].find(([pointer]) => pointer !== id)[1];
    const [was, is] = [Math.abs(before.x - other.x), Math.abs(place.x - other.x)];
    if (was > 8 && is > 8) scene.camera.zoom(was / is, scene.time(other.x));
    this.drag = null;
    this.view.changed();
  }

  up(event) {
    const place = this.place(event);
    const click = this.drag?.kind === "move" && !this.drag.moved && event.type === "pointerup";
    this.pointers.delete(event.pointerId);
    this.drag = null;
    if (!click) return;
    const at = this.at(place);
    if (at && at.span === undefined) this.scene.camera.zoom(0.25, this.scene.time(place.x));
    else this.view.select(at);
    this.view.changed();
  }

  wheel(event) {
    event.preventDefault();
    const { scene } = this;
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? scene.height : 1;
    const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
    const { x } = this.place(event);
    if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) {
      scene.camera.pan((dx || dy) / (scene.right - scene.left));
    } else if (x < scene.left) {
      scene.scrollTo(scene.scroll + dy);
    } else {
      scene.camera.zoom(Math.exp(Math.min(Math.max(dy, -240), 240) * 0.003), scene.time(x));
    }
    this.hover(this.place(event));
  }

  /** Where keys zoom: at the pointer, or in the middle. */
  focusTime() {
    const { scene, pointer } = this;
    const inside = pointer.x >= scene.left && pointer.x <= scene.right;
    return inside ? scene.time(pointer.x) : (scene.camera.from + scene.camera.to) / 2;
  }

  key(event, pressed) {
    if (event.target.matches("input, select, dialog, dialog *") || event.ctrlKey || event.metaKey || event.altKey) return;
    const { held } = this.scene.camera;
    const name = event.key.toLowerCase();
    const holds = { w: ["zoom", 1], s: ["zoom", -1], a: ["pan", -1], d: ["pan", 1] };
    if (holds[name]) {
      const [what, way] = holds[name];
      if (pressed) held[what] = way;
      else if (held[what] === way) held[what] = 0;
      this.view.changed();
    } else if (pressed && this.press(name)) {
      event.preventDefault();
    }
  }

  press(name) {
    const { scene, view } = this;
    const acts = {
      arrowup: () => scene.scrollTo(scene.scroll - 40),
      arrowdown: () => scene.scrollTo(scene.scroll + 40),
      arrowleft: () => view.step(-1),
      arrowright: () => view.step(1),
      f: () => view.frameSelection(),
      0: () => scene.camera.showAll(),
      "/": () => view.focusSearch(),
      t: () => view.toggleTheme(),
      "?": () => view.showKeys(),
      escape: () => view.select(null),
    };
    if (!acts[name]) return false;
    acts[name]();
    view.changed();
    return true;
  }
}
