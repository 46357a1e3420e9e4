// Stretches of time of a filter: the last hours or days, or from and until what a person says.
import {html} from "../vendor/core.js";
import {t} from "../i18n.js";
import {place, setQuery} from "../router.js";
import {fromLocal, toLocal} from "../zones.js";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
export const RANGES = {"1h": HOUR_MS, "24h": DAY_MS, "7d": 7 * DAY_MS, "30d": 30 * DAY_MS};

/** The name of the range of an address; `fallback` where it says nothing. */
const rangeIn = ({range, from, to}, fallback) => (range || from || to ? range : fallback);

/** {from_ms, to_ms} of the address: `range`, or `from` and `to` as epoch milliseconds. */
export function rangeOf(query, nowMs, fallback) {
  const whole = (value) => (/^\d{1,15}$/.test(value ?? "") ? Number(value) : undefined);
  // so that a list is not loaded again each second
  const range = rangeIn(query, fallback);
  if (range in RANGES) return {from_ms: Math.floor(nowMs / 60_000) * 60_000 - RANGES[range]};
  return {from_ms: whole(query.from), to_ms: whole(query.to)};
}

/** The choice of a stretch of time; `fallback` is what holds where none was chosen. */
export function RangeChoice({fallback}) {
  const {query} = place.value, range = rangeIn(query, fallback);
  const isOwn = Boolean(query.from || query.to) || query.range === "own";
  const pick = (event) => {
    const {value} = event.target;
    setQuery({range: value, page: undefined, ...(value === "own" ? {from: query.from ?? Math.floor(Date.now() / 60_000) * 60_000 - DAY_MS} : {from: undefined, to: undefined})});
  };
  const bound = (name) => (event) => setQuery({[name]: event.target.value ? fromLocal(event.target.value) ?? undefined : undefined, range: "own"});
  const field = (name) => html`<label class="filter">${t(`range.${name}`)}<input type="datetime-local" name=${name} value=${query[name] && /^\d+$/.test(query[name]) ? toLocal(Number(query[name])) : ""} onChange=${bound(name)} /></label>`;
  return html`<label class="filter">${t("range.label")}<select name="range" onChange=${pick}>
    <option value=${fallback ? "any" : ""}>${t("filter.any")}</option>${Object.keys(RANGES).map((key) => html`<option value=${key} selected=${!isOwn && range === key}>${t(`range.${key}`)}</option>`)}
    <option value="own" selected=${isOwn}>${t("range.own")}</option></select></label>${isOwn && [field("from"), field("to")]}`;
}
