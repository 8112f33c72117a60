// Lanes to pixels. The area of a colour is the time that it stands for: where several segments
// meet in a column of pixels, two or three are mixed, and more are stacked by their share.

/** So many segments in a column are mixed. */
const MIXED = 3;
/** Equal neighbours at least so many pixels wide are set apart by a line. */
const APART = 3;
/** Segments at least so many pixels wide are noted, to be labelled. */
const LABELLED = 34;

/** Whether the lowest byte of a word comes first in memory, as red does on a canvas. */
const RED_LOWEST = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

/** A colour as a word of a canvas: red, green, blue, opaque. */
function pixel(red, green, blue) {
  const word = RED_LOWEST
    ? 0xff000000 | (blue << 16) | (green << 8) | red
    : (red << 24) | (green << 16) | (blue << 8) | 0xff;
  return word >>> 0;
}

function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

/** The colours of keys: as they are, then faded (of what a search did not find). */
class Inks {
  constructor(keys, theme, lane) {
    this.lane = channels(lane);
    this.background = pixel(...this.lane);
    this.keys = keys.length;
    const plain = keys.map((key) => channels(key[theme]));
    const faded = plain.map((rgb) => rgb.map((c, at) => 0.18 * c + 0.82 * this.lane[at]));
    this.rgb = [...plain, ...faded];
    this.pixels = Uint32Array.from(this.rgb, (rgb) => pixel(...rgb));
    const tasks = keys.map((key) => key.group === "tasks");
    this.tasks = [...tasks, ...tasks];
  }
}

/** An area of pixels that lanes are painted to. */
class Raster {
  /** `keys` is the number of colours. */
  constructor(width, height, keys) {
    this.image = new ImageData(Math.max(width, 1), Math.max(height, 1));
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.width = width;
    this.height = height;
    this.row = new Uint32Array(width);
    /** Columns to be stacked, and per column the time of each key as it is and faded. */
    this.stacked = new Uint32Array(width);
    this.room = 2 * keys;
    this.sums = new Float64Array(width * this.room);
  }

  clear(colour) {
    this.pixels.fill(colour);
  }

  /**
   * Paints a lane in rows `top` to before `bottom`; the first column begins at `from`, each
   * takes `step` nanoseconds. `look` has the inks, which keys are hidden and, in a search, which
   * spans were found. Returns the segments that are wide enough for a label.
   */
  lane(lane, from, step, look, top, bottom) {
    const { inks, hidden, found } = look;
    const { start, end, key, span, count } = lane;
    const { row, width, sums, room, stacked } = this;
    const ink = (k) => (found && !found[span[k]] ? key[k] + inks.keys : key[k]);
    const wide = [];
    let stacks = 0;
    let i = lane.after(from);
    for (let x = 0; x < width; x++) {
      const a = from + x * step;
      const b = a + step;
      while (i < count && end[i] <= a) i++;
      if (i === count || start[i] >= b) {
        row[x] = inks.background;
        continue;
      }
      if (start[i] <= a && end[i] >= b) {
        row[x] = hidden[key[i]] ? inks.background : inks.pixels[ink(i)];
        if (wide[wide.length - 1] !== i && end[i] - start[i] >= LABELLED * step) wide.push(i);
        continue;
      }
      const j = this.upTo(lane, i, b);
      const base = stacks * room;
      sums.fill(0, base, base + room);
      if (found) {
        for (let k = i; k < j; k++) sums[base + ink(k)] += Math.min(end[k], b) - Math.max(start[k], a);
      } else {
        lane.add(sums, base, i, j, a, b);
      }
      this.hide(base, hidden);
      if (j - i <= MIXED) {
        const line = j - i === 2 && ink(i) === ink(i + 1) && this.apart(lane, i, step);
        row[x] = this.mixed(base, line ? 0.5 * step : 0, step, inks);
      } else {
        row[x] = inks.background;
        stacked[stacks++] = x;
      }
      i = j - 1;
    }
    for (let y = top; y < bottom; y++) this.pixels.set(row, y * width);
    this.stack(stacks, step, inks, top, bottom);
    return wide;
  }

  /** Paints the shares of the workers' time of a whole run as one lane. */
  overview(run, from, step, look, top, bottom) {
    const { width, sums, room } = this;
    sums.fill(0);
    for (let x = 0; x < width; x++) {
      const a = from + x * step;
      this.stacked[x] = x;
      for (const lane of run.workers) lane.addWindow(sums, x * room, a, a + step);
      this.hide(x * room, look.hidden);
    }
    this.pixels.fill(look.inks.background, top * width, bottom * width);
    this.stack(width, step * Math.max(run.workers.length, 1), look.inks, top, bottom);
  }

  /** Takes hidden keys out of the sums from `base` on. */
  hide(base, hidden) {
    for (let k = 0; k < hidden.length; k++) {
      if (hidden[k]) this.sums[base + k] = this.sums[base + k + hidden.length] = 0;
    }
  }

  /** The first segment from `i` on that starts at `time` or later. */
  upTo(lane, i, time) {
    let reach = 1;
    while (i + reach < lane.count && lane.start[i + reach] < time) reach *= 2;
    const low = i + (reach >> 1);
    const high = Math.min(i + reach, lane.count);
    return low + firstWhere(high - low, (k) => lane.start[low + k] >= time);
  }

  apart(lane, i, step) {
    const wide = (k) => lane.end[k] - lane.start[k] >= APART * step;
    return lane.end[i] === lane.start[i + 1] && wide(i) && wide(i + 1);
  }

  /**
   * Paints the first `stacks` columns of shares: tasks from the bottom, the rest from the top.
   * What rounding takes from a column is given to the next, so that small shares are not lost.
   */
  stack(stacks, whole, inks, top, bottom) {
    const { pixels, width, sums, room, stacked } = this;
    const carry = new Float64Array(room);
    const scale = (bottom - top) / whole;
    for (let s = 0; s < stacks; s++) {
      let low = bottom;
      let high = top;
      for (let k = 0; k < room; k++) {
        const exact = scale * sums[s * room + k] + carry[k];
        if (exact < 0.5) {
          carry[k] = Math.max(exact, -1);
          continue;
        }
        const rows = Math.min(Math.round(exact), low - high);
        carry[k] = Math.min(exact - rows, 1);
        if (inks.tasks[k]) low -= rows;
        else high += rows;
        const first = inks.tasks[k] ? low : high - rows;
        const ink = inks.pixels[k];
        for (let at = first * width + stacked[s], n = 0; n < rows; n++, at += width) pixels[at] = ink;
      }
    }
  }

  /** The colours of a column side by side, as an eye mixes them; `lost` of it is background. */
  mixed(base, lost, step, inks) {
    const { sums, room } = this;
    let [r, g, b] = [0, 0, 0];
    let rest = step;
    for (let k = 0; k < room; k++) {
      if (sums[base + k] <= 0) continue;
      const part = Math.max(sums[base + k] - lost, 0);
      const ink = inks.rgb[k];
      r += part * ink[0];
      g += part * ink[1];
      b += part * ink[2];
      rest -= part;
    }
    const share = Math.max(rest, 0);
    const [red, green, blue] = [r, g, b].map((sum, at) => (sum + share * inks.lane[at]) / step);
    return pixel(red, green, blue);
  }
}
