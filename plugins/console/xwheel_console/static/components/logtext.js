// What one line of a log shows: colours of terminals, levels, marks of a search, and signs for what cannot be seen.
import {html} from "../vendor/core.js";
import {t} from "../i18n.js";

/** Characters of a line that are drawn; the rest is a click away. */
export const MOST_SHOWN = 10_000;
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// colours and cursor movements, titles of windows, and other sequences of two characters
const ESCAPES = /\u001b\[([0-9;:?]*)([ -/]*[@-~])|\u001b[\]P_^][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-Z\\-_a-z=>]/g;
// what would be invisible, or would turn the text around: control characters but the tab, and the signs of writing direction
const UNSEEN = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]/g;
const LEVELS = [["error", /\b(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC)\b|^Traceback |^\s*(?:[\w.]+(?:Error|Exception))\b/], ["warn", /\bWARN(?:ING)?\b/], ["debug", /\b(?:DEBUG|TRACE)\b/]];

/** error, warn, debug or null, by the word near the beginning of a line. */
export function levelOf(text) {
  const begin = text.slice(0, 160);
  for (const [name, pattern] of LEVELS) if (pattern.test(begin)) return name;
  return null;
}

function styled(state, codes) {
  const next = {...state};
  const wanted = codes === "" ? [0] : codes.split(/[;:]/).map(Number);
  for (let at = 0; at < wanted.length; at += 1) {
    const code = wanted[at];
    if (code === 0) { for (const name of Object.keys(next)) delete next[name]; }
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 7) next.inverse = true;
    else if (code === 22) { delete next.bold; delete next.dim; }
    else if (code === 23) delete next.italic;
    else if (code === 24) delete next.underline;
    else if (code === 27) delete next.inverse;
    else if (code >= 30 && code <= 37) next.fg = NAMES[code - 30];
    else if (code >= 90 && code <= 97) next.fg = NAMES[code - 90];
    else if (code === 39) delete next.fg;
    else if (code >= 40 && code <= 47) next.bg = NAMES[code - 40];
    else if (code >= 100 && code <= 107) next.bg = NAMES[code - 100];
    else if (code === 49) delete next.bg;
    else if (code === 38 || code === 48) {
      // of 256 colours the first 16 have names; others are left as they are
      if (wanted[at + 1] === 5 && wanted[at + 2] < 16) next[code === 38 ? "fg" : "bg"] = NAMES[wanted[at + 2] % 8];
      at += wanted[at + 1] === 5 ? 2 : wanted[at + 1] === 2 ? 4 : 0;
    }
  }
  return next;
}
const classes = (state) => [state.fg && `fg-${state.fg}`, state.bg && `bg-${state.bg}`, ...["bold", "dim", "italic", "underline", "inverse"].filter((name) => state[name])].filter(Boolean).join(" ");

/** A line without what only terminals understand, and where its colours change: {text, runs: [[from, classes]]}. */
export function readLine(raw) {
  let text = "", from = 0, state = {};
  const runs = [];
  if (!raw.includes("\u001b")) return {text: raw, runs};
  for (const found of raw.matchAll(ESCAPES)) {
    text += raw.slice(from, found.index);
    from = found.index + found[0].length;
    if (found[2] === "m" && !found[1].startsWith("?")) { state = styled(state, found[1]); runs.push([text.length, classes(state)]); }
  }
  return {text: text + raw.slice(from), runs};
}

/** Signs in place of characters that cannot be seen, so that nothing hides in a text; line breaks stay where `lines` is true. */
export function visible(text, {lines = false} = {}) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(UNSEEN)) {
    if (lines && found[0] === "\n") continue;
    if (found.index > from) parts.push(text.slice(from, found.index));
    const code = found[0].charCodeAt(0);
    const name = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    const sign = code < 0x20 || code === 0x7f ? `^${String.fromCharCode(code ^ 0x40)}` : name;
    parts.push(html`<span class="unseen" title=${name}>${sign}</span>`);
    from = found.index + 1;
  }
  if (!parts.length) return text;
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

/** Where a text stands in another one, in upper or lower case: [[from, to]]. */
export function marksOf(text, wanted) {
  if (!wanted) return [];
  const all = text.toLowerCase(), one = wanted.toLowerCase(), found = [];
  // a few letters are longer in lower case: then places would be wrong, and nothing is marked
  if (all.length !== text.length) return [];
  for (let at = all.indexOf(one); at >= 0 && found.length < 200; at = all.indexOf(one, at + one.length)) found.push([at, at + one.length]);
  return found;
}

/** The text of a line as what is drawn; `wanted` is marked. `showAll(text)` is called for what is too long to be drawn. */
export function drawn(raw, wanted, showAll) {
  const {text: whole, runs} = readLine(raw);
  const text = whole.slice(0, MOST_SHOWN);
  const marks = marksOf(text, wanted);
  const cuts = [...new Set([0, ...runs.map(([at]) => at), ...marks.flat(), text.length])].filter((at) => at <= text.length).sort((one, other) => one - other);
  const parts = [];
  for (let index = 0; index + 1 < cuts.length; index += 1) {
    const [from, to] = [cuts[index], cuts[index + 1]];
    let style = "";
    for (const [at, name] of runs) { if (at > from) break; style = name; }
    const shown = visible(text.slice(from, to));
    const isMarked = marks.some(([begin, end]) => from >= begin && to <= end);
    parts.push(isMarked ? html`<mark class=${style}>${shown}</mark>` : style ? html`<span class=${style}>${shown}</span>` : shown);
  }
  if (whole.length > MOST_SHOWN) parts.push(html` <button type="button" class="link small" onClick=${() => showAll(whole)}>${t("log.longer", {count: whole.length - MOST_SHOWN})}</button>`);
  return parts;
}
