// The lines of a log that are in memory: pieces of it, as many as fit, wherever somebody looks.

const CHUNK = 500;
/** Lines and characters that are kept. */
export const MOST_LINES = 200_000;
const MOST_CHARS = 64_000_000;

export class LogBuffer {
  /** Chunks of lines by their number, the one that was used last at the end: {lines, chars}. */
  #chunks = new Map();
  #lines = 0;
  #chars = 0;

  constructor() {
    /** How many lines are known to be there. */
    this.total = 0;
  }

  get lines() { return this.#lines; }

  /** Take lines in from a number on; those that are there already stay as they are. */
  add(from, lines) {
    for (const [offset, text] of lines.entries()) {
      const number = from + offset, key = Math.floor((number - 1) / CHUNK);
      let chunk = this.#chunks.get(key);
      if (!chunk) this.#chunks.set(key, chunk = {lines: [], chars: 0});
      const at = (number - 1) % CHUNK;
      if (chunk.lines[at] !== undefined) continue;
      chunk.lines[at] = text;
      chunk.chars += text.length;
      this.#lines += 1;
      this.#chars += text.length;
    }
    this.total = Math.max(this.total, from + lines.length - 1);
    this.#shrink(Math.floor((from - 1) / CHUNK), Math.floor((from + lines.length - 2) / CHUNK));
  }

  /** Forget what was used longest ago, but not what has just come. */
  #shrink(first, last) {
    for (const [key, chunk] of this.#chunks) {
      if (this.#lines <= MOST_LINES && this.#chars <= MOST_CHARS) return;
      if (key >= first && key <= last) continue;
      this.#chunks.delete(key);
      this.#lines -= chunk.lines.filter((line) => line !== undefined).length;
      this.#chars -= chunk.chars;
    }
  }

  /** A line, or undefined if it is not in memory. */
  get(number) {
    return this.#chunks.get(Math.floor((number - 1) / CHUNK))?.lines[(number - 1) % CHUNK];
  }

  /** Note that lines are looked at, so that others are forgotten before; return the first that is missing, or null. */
  want(from, to) {
    let missing = null;
    for (let key = Math.floor((from - 1) / CHUNK); key <= Math.floor((to - 1) / CHUNK); key += 1) {
      const chunk = this.#chunks.get(key);
      if (chunk) { this.#chunks.delete(key); this.#chunks.set(key, chunk); }
    }
    for (let number = from; number <= to && missing === null; number += 1) if (this.get(number) === undefined) missing = number;
    return missing;
  }
}

/** The lines of a piece of a log; the last one is whole too. */
export function linesOf(piece) {
  const lines = piece.content.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const count = piece.next_line - piece.from_line;
  if (lines.length > count && count > 0) lines.length = count;
  while (lines.length < count) lines.push("");
  return lines;
}
