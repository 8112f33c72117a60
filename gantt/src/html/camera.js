// Which part of the time axis is seen.

/** The shortest stretch of time to show, in nanoseconds. */
const LEAST_SPAN = 50;
/** What is seen beyond the first and last moment, as a share of the whole. */
const MARGIN = 0.02;
/** Factor of zooming, and share of what is seen that is moved by, per second of a held key. */
const ZOOM_SPEED = 8;
const PAN_SPEED = 1.1;

class Camera {
  constructor() {
    this.limits = [0, 1];
    this.from = 0;
    this.to = 1;
    /** Zoom and movement of the keys that are held: -1, 0 or 1. */
    this.held = { zoom: 0, pan: 0 };
  }

  limit(from, to) {
    const margin = Math.max((to - from) * MARGIN, 1);
    this.limits = [from - margin, to + margin];
  }

  show(from, to) {
    const [least, most] = this.limits;
    const span = Math.min(Math.max(to - from, LEAST_SPAN), most - least);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, least), most - span);
    this.to = this.from + span;
  }

  /** Shows a stretch with some room around it. */
  frame(from, to) {
    const room = (to - from) * 0.15;
    this.show(from - room, to + room);
  }

  showAll() {
    this.show(...this.limits);
  }

  /** Brings a stretch into sight, without zooming where it fits. */
  reveal(from, to) {
    const span = this.to - this.from;
    if (to - from > span) this.frame(from, to);
    else if (from < this.from || to > this.to) this.show((from + to - span) / 2, (from + to + span) / 2);
  }

  /** Makes what is seen `factor` times as long; `time` stays where it is. */
  zoom(factor, time) {
    const [least, most] = this.limits;
    const span = Math.min(Math.max((this.to - this.from) * factor, LEAST_SPAN), most - least);
    const part = (time - this.from) / (this.to - this.from);
    this.show(time - part * span, time + (1 - part) * span);
  }

  /** Moves by a share of what is seen. */
  pan(share) {
    const move = (this.to - this.from) * share;
    this.show(this.from + move, this.to + move);
  }

  /** Moves on by `seconds` of held keys; whether any are held. */
  advance(seconds, time) {
    const { zoom, pan } = this.held;
    if (zoom) this.zoom(ZOOM_SPEED ** (-zoom * seconds), time);
    if (pan) this.pan(PAN_SPEED * pan * seconds);
    return zoom !== 0 || pan !== 0;
  }
}
