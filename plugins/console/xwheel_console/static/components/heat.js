// A year as a calendar of small squares, a column for each week, the darker the more ran (C4).
import {html} from "../vendor/core.js";
import {dayOf, firstWeekday, number, t} from "../i18n.js";
import {link} from "../router.js";
import {failedOf, runsOf} from "./reports.js";
import {DAY_MS} from "./range.js";

const utc = (ms, options) => dayOf(ms, {timeZone: "UTC", ...options});

function toneOfDay(counts, most) {
  if (!counts || !runsOf(counts)) return "";
  const bad = failedOf(counts) / runsOf(counts);
  if (bad > 0.2) return "bad-many";
  if (bad > 0) return "bad-few";
  const part = runsOf(counts) / most;
  return part > 0.66 ? "many" : part > 0.33 ? "more" : "few";
}

/** `items` are days of a report; the last day is that of `nowMs`. */
export function Heat({items, nowMs, query = {}}) {
  const known = new Map(items.map((item) => [item.from_ms, item.counts]));
  const most = Math.max(1, ...items.map((item) => runsOf(item.counts)));
  const today = Math.floor(nowMs / DAY_MS) * DAY_MS, first = firstWeekday() % 7;
  // days since the week began, by the language's own first day
  const into = (new Date(today).getUTCDay() - first + 7) % 7;
  const start = today - (into + 52 * 7) * DAY_MS;
  const weeks = Array.from({length: 53}, (_, week) => start + week * 7 * DAY_MS);
  const month = (ms) => new Date(ms).getUTCMonth();
  const all = items.reduce((sum, item) => sum + runsOf(item.counts), 0), bad = items.reduce((sum, item) => sum + failedOf(item.counts), 0);
  const last = Math.max(...known.keys());
  // one stop of the Tab key for the year; arrows go on from day to day and week to week, over days without runs
  const onKey = (event) => {
    const step = {ArrowLeft: -7, ArrowRight: 7, ArrowUp: -1, ArrowDown: 1}[event.key], from = Date.parse(event.target.dataset?.day);
    if (!step || Number.isNaN(from)) return;
    event.preventDefault();
    for (let ms = from + step * DAY_MS; ms >= start && ms <= today; ms += step * DAY_MS) {
      if (known.has(ms)) { event.currentTarget.querySelector(`[data-day="${new Date(ms).toISOString().slice(0, 10)}"]`)?.focus(); return; }
    }
  };
  const cell = (ms) => {
    if (ms > today) return html`<td></td>`;
    const counts = known.get(ms), tone = toneOfDay(counts, most), when = utc(ms, {year: "numeric", month: "short", day: "numeric"});
    const words = counts ? t("heat.day", {day: when, runs: number(runsOf(counts)), failed: number(failedOf(counts))}) : t("heat.nothing", {day: when});
    return html`<td>${counts ? html`<a class=${tone} href=${link("/runs", {...query, from: ms, to: ms + DAY_MS})} title=${words} aria-label=${words} tabindex=${ms === last ? 0 : -1} data-day=${new Date(ms).toISOString().slice(0, 10)}></a>` : html`<span title=${words}></span>`}</td>`;
  };
  return html`<div class="heat" onKeyDown=${onKey} tabindex=${known.size ? null : 0} role="region" aria-label=${t("heat.label", {count: all, failed: number(bad)})}><table><caption class="only-read">${t("heat.label", {count: all, failed: number(bad)})}</caption>
    <thead><tr><td></td>${weeks.map((ms, index) => (index === 0 || month(ms) !== month(weeks[index - 1]) ? html`<th scope="col"><span class="month">${utc(ms, {month: "short"})}</span></th>` : html`<td></td>`))}</tr></thead>
    <tbody>${[0, 1, 2, 3, 4, 5, 6].map((day) => html`<tr><th scope="row">${utc(start + day * DAY_MS, {weekday: "short"})}</th>${weeks.map((ms) => cell(ms + day * DAY_MS))}</tr>`)}</tbody></table></div>`;
}
