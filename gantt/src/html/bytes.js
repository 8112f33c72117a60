// Bytes of the document back to numbers.

/** The bytes that the base64 text of an element stands for, inflated. */
async function inflate(id) {
  const text = atob(document.getElementById(id).textContent.trim());
  const packed = Uint8Array.from(text, (c) => c.charCodeAt(0));
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot inflate data; browsers since 2023 can");
  }
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads whole numbers, seven bits a byte and the lowest bits first. */
class Numbers {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    let byte = this.bytes[this.at++];
    let value = byte & 127;
    for (let scale = 128; byte > 127; scale *= 128) {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
    }
    return value;
  }

  /** Numbers of either sign, of which 0, -1, 1, -2 are written as 0, 1, 2, 3. */
  signed() {
    const value = this.next();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }

  /** The sums so far of `count` signed differences, written to `out`. */
  sums(out) {
    let sum = 0;
    for (let i = 0; i < out.length; i++) {
      sum += this.signed();
      out[i] = sum;
    }
  }
}
