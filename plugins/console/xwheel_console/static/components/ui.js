// Small parts of every page: badges, times, panels with their four states, icons, copy buttons.
import {html, useEffect, useSignal} from "../vendor/core.js";
import {ago, dateTime, duration, t} from "../i18n.js";
import {now} from "../store.js";

const STATES = {
  succeeded: ["✓", "good"], failed: ["✕", "bad"], timed_out: ["✕", "bad"], lost: ["⚡", "lost"], running: ["◐", "busy"], dispatching: ["◐", "busy"],
  planned: ["◔", "calm"], waits: ["◔", "calm"], skipped: ["⤼", "calm"], refused: ["⊘", "bad"], cancelled: ["⊗", "calm"], killed: ["⊗", "calm"],
  started: ["▶", "good"], stopped: ["■", "calm"], up: ["●", "good"], away: ["⚡", "bad"], ok: ["✓", "good"], warning: ["!", "busy"], error: ["✕", "bad"],
};
export const toneOf = (state) => STATES[state]?.[1] ?? "calm";
export const OPEN_STATES = ["planned", "dispatching", "running"];
export const isOpen = (run) => OPEN_STATES.includes(run.state);

/** A state as icon and word, never as a colour alone. */
export const Badge = ({state, words}) => html`<span class="badge ${toneOf(state)}" data-state=${state}><span aria-hidden="true">${STATES[state]?.[0] ?? "·"}</span> ${words ?? t(`state.${state}`)}</span>`;

/** Whether a run waits on its executor, which is no state of its own. */
export const waitsThere = (run) => run.state === "running" && run.reason.startsWith("waits:");
export const RunBadge = ({run}) => html`<${Badge} state=${waitsThere(run) ? "waits" : run.state} />`;

/** An instant: absolute, and how long ago in the tooltip; or the other way round. */
export function Time({ms, relative = false}) {
  if (ms === null || ms === undefined) return html`<span class="faint">–</span>`;
  const [shown, hint] = relative ? [ago(ms, now.value), dateTime(ms)] : [dateTime(ms), ago(ms, now.value)];
  return html`<time datetime=${new Date(ms).toISOString()} title=${hint}>${shown}</time>`;
}
export const Duration = ({ms}) => html`<span class="number">${duration(ms)}</span>`;
/** How long a run has taken, or takes by now. */
export const runMs = (run) => (run.began_ms === null ? null : (run.finished_ms ?? (isOpen(run) ? now.value : null)) === null ? null : Math.max(0, (run.finished_ms ?? now.value) - run.began_ms));

/** Two bars: many fonts have no sign for a pause. */
export const PauseMark = () => html`<svg class="glyph" viewBox="0 0 16 16" aria-hidden="true"><path d="M3 2h4v12H3zM9 2h4v12H9z" /></svg>`;
export const Icon = ({of}) => html`<span class="icon" aria-hidden="true">${of}</span>`;

/** Why something could not be loaded or done, with what helps. */
export function Failure({error, retry}) {
  const words = error.isNetwork ? t("error.network") : error.code === "unconfirmed" ? t("problem.unconfirmed") : error.status === 403 ? t("error.forbidden") : error.status === 404 ? t("error.missing") : null;
  return html`<div class="failure" role="alert">
    ${words && html`<p><strong>${words}</strong></p>`}
    <p>${error.isNetwork ? "" : error.message}</p>
    ${error.requestId && html`<p class="faint">${t("error.request", {id: error.requestId})}</p>`}
    ${retry && html`<button class="small" onClick=${retry}>${t("action.retry")}</button>`}
  </div>`;
}

/** A panel in one of four states: loading (after 300 ms, or at once what `waiting` is), empty, error, or stale with its age. */
export function Panel({of, isEmpty, empty, children, label, waiting}) {
  const isSlow = useSignal(false);
  const waits = of.isLoading && of.data === null;
  useEffect(() => {
    if (!waits) { isSlow.value = false; return undefined; }
    const timer = setTimeout(() => { isSlow.value = true; }, 300);
    return () => clearTimeout(timer);
  }, [waits]);
  if (of.data === null && of.error) return html`<${Failure} error=${of.error} retry=${of.reload} />`;
  if (of.data === null) return html`<div class="skeleton ${isSlow.value ? "shown" : ""}" role="status" aria-label=${t("state.loading")}>${waiting ?? (isSlow.value && html`<span></span><span></span><span></span>`)}</div>`;
  return html`<div class=${of.isStale ? "stale" : ""} aria-label=${label} aria-busy=${of.isLoading}>
    ${of.isStale && html`<p class="age" role="status">${t("state.stale", {age: ago(of.atMs, Date.now())})}</p>`}
    ${isEmpty ? html`<div class="empty">${empty}</div>` : children}
  </div>`;
}

/** A button that copies a text. */
export function Copy({text, label}) {
  const done = useSignal(false);
  const copy = async () => { await navigator.clipboard?.writeText(text); done.value = true; setTimeout(() => { done.value = false; }, 1500); };
  return html`<button class="link small" onClick=${copy}>${done.value ? t("action.copied") : label ?? t("action.copy")}</button>`;
}

/** Facts as names and values; those without a value are left out. */
export const Facts = ({items}) => html`<dl class="facts">${items.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

/** Tabs of a page, each a link. */
export const Tabs = ({items, current, label}) => html`<nav class="tabs" aria-label=${label}>${items.map(([key, words, href]) => html`<a href=${href} aria-current=${key === current ? "page" : null}>${words}</a>`)}</nav>`;

/** The last results of a job as bars, the newest at the right; height is how long each took. */
export function Spark({runs}) {
  if (!runs?.length) return html`<span class="faint">–</span>`;
  const shown = [...runs].reverse();
  // an outcome may be there before the answer to the send is
  const took = shown.map((run) => (run.finished_ms === null ? 0 : runMs(run) ?? 0));
  const most = Math.max(1, ...took);
  const words = t("spark", {count: runs.length, good: runs.filter((run) => run.state === "succeeded").length});
  return html`<svg class="spark" role="img" aria-label=${words} viewBox="0 0 ${20 * 5} 20" preserveAspectRatio="xMaxYMid"><title>${words}</title>${shown.map((run, index) => {
    const height = 4 + Math.round(16 * took[index] / most);
    return html`<rect class=${toneOf(run.state)} x=${(20 - shown.length + index) * 5} y=${20 - height} width="4" height=${height} />`;
  })}</svg>`;
}

/** Save a text as a file of the browser. */
export function saveAs(name, text, type = "text/plain;charset=utf-8") {
  const made = URL.createObjectURL(new Blob([text], {type}));
  const anchor = Object.assign(document.createElement("a"), {href: made, download: name});
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(made), 10_000);
}

const cell = (value) => {
  let text = value === null || value === undefined ? "" : String(value);
  if (/^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
/** Rows as CSV; what a spreadsheet would take for a formula is defused. */
export const toCsv = (heads, rows) => `\ufeff${[heads, ...rows].map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
