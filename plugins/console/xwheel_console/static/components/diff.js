// What differs between two texts, line by line.
import {html} from "../vendor/core.js";
import {t} from "../i18n.js";
import {visible} from "./logtext.js";

const MOST = 2000;

/** Lines as [" ", "-" or "+", text], by the longest common subsequence; beyond 2,000 lines the rest is compared in place. */
export function diffLines(one, other) {
  const before = one.split("\n"), after = other.split("\n");
  if (before.length > MOST || after.length > MOST) return [...before.map((line) => ["-", line]), ...after.map((line) => ["+", line])];
  const lengths = Array.from({length: before.length + 1}, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) lengths[i][j] = before[i] === after[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  }
  const found = [];
  let i = 0, j = 0;
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) { found.push([" ", before[i]]); i += 1; j += 1; }
    else if (j >= after.length || (i < before.length && lengths[i + 1][j] >= lengths[i][j + 1])) { found.push(["-", before[i]]); i += 1; }
    else { found.push(["+", after[j]]); j += 1; }
  }
  return found;
}

/** Two texts as lines that went, came or stayed, each a row of its own; sign and words besides the colour. */
export const Diff = ({one, other, label}) => html`<pre class="diff" role="figure" tabindex="0" aria-label=${label}>${diffLines(one, other).map(([sign, line]) => html`<span class=${sign === "-" ? "gone" : sign === "+" ? "new" : ""}>${sign} ${visible(line)}</span>`)}</pre>`;

/** Fields that differ: items are [name, before, after]; `heads` are other words for before and after. */
export const FieldDiff = ({items, heads = [t("diff.before"), t("diff.after")]}) => html`<table class="field-diff"><thead><tr><th scope="col">${t("diff.field")}</th><th scope="col">${heads[0]}</th><th scope="col">${heads[1]}</th></tr></thead>
  <tbody>${items.map(([name, before, after]) => html`<tr><th scope="row">${name}</th><td class="gone">${show(before)}</td><td class="new">${show(after)}</td></tr>`)}</tbody></table>`;
export const show = (value) => (value === null || value === undefined || value === "" ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value));
