// Words in the person's language, and dates, numbers and durations as that language writes them.
import {plain, signal} from "./vendor/core.js";

export const LANGUAGES = {en: "English", "zh-CN": "简体中文"};
const catalogues = new Map();
const loaded = new Set();
/** Rises when words were loaded or the language changed. */
const version = signal(0);
export const language = signal("en");
export const zone = signal("browser");
/** The zone that times of "server" are shown in: the node's own is UTC, as its answers are. */
const zoneName = () => (zone.value === "browser" ? undefined : zone.value === "server" ? "UTC" : zone.value);
const OWN_MS = 60_000;
let own = {zone: "", atMs: -OWN_MS};
/** The browser's zone. To ask for it takes as long as to draw a row, so it is asked once a minute. */
function ownZone() {
  const atMs = performance.now();
  if (atMs - own.atMs >= OWN_MS) own = {zone: Intl.DateTimeFormat().resolvedOptions().timeZone, atMs};
  return own.zone;
}
export const zoneShown = () => zoneName() ?? ownZone();

export function pickLanguage(wanted) {
  for (const one of wanted) {
    if (one in LANGUAGES) return one;
    if (/^zh/i.test(one)) return "zh-CN";
    if (/^en/i.test(one)) return "en";
  }
  return "en";
}

async function fetchWords(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return answer.json();
}

/** Load an area's words in a language, and in English besides; an area is a file of i18n/LANGUAGE. */
export async function loadWords(area, to = language.value) {
  const wanted = [...new Set([to, "en"])].filter((one) => !loaded.has(`${one}/${area}`));
  await Promise.all(wanted.map(async (one) => {
    addWords(one, await fetchWords(new URL(`i18n/${one}/${area}.json`, document.baseURI)));
    loaded.add(`${one}/${area}`);
  }));
}

/** Add a plugin's words; keys of others are not replaced. */
export function addWords(to, words) {
  if (!catalogues.has(to)) catalogues.set(to, new Map());
  const known = catalogues.get(to);
  for (const [key, text] of Object.entries(words)) if (!known.has(key)) known.set(key, text);
  version.value += 1;
}

export const areas = () => new Set([...loaded].map((one) => one.split("/")[1]));
export async function setLanguage(to) {
  const picked = pickLanguage([to]);
  await Promise.all([...areas()].map((area) => loadWords(area, picked)));
  language.value = picked;
  document.documentElement.lang = picked;
}

const pseudo = (text) => `⟦${text.replace(/[aeiou]/g, (letter) => ({a: "á", e: "é", i: "í", o: "ó", u: "ú"}[letter]))} ~~~⟧`;

/** Whether there are words for a key. */
export const has = (key) => { version.value; return Boolean(catalogues.get(language.value)?.has(key) || catalogues.get("en")?.has(key)); };

/** The words of a key. Slots are {name}; with {count}, KEY_one and KEY_other are for one and for many. */
export function t(key, slots = {}) {
  version.value;
  const lang = language.value;
  let wanted = key;
  if (slots.count !== undefined) wanted = `${key}_${format(Intl.PluralRules).select(slots.count)}`;
  const find = (to) => catalogues.get(to)?.get(wanted) ?? catalogues.get(to)?.get(`${key}_other`) ?? catalogues.get(to)?.get(key);
  const text = find(lang) ?? find("en") ?? key;
  const filled = text.replace(/\{(\w+)\}/g, (whole, name) =>
    (name in slots ? (typeof slots[name] === "number" ? number(slots[name]) : plain(String(slots[name]))) : whole));
  return globalThis.xwheelPseudo ? pseudo(filled) : filled;
}

const cache = new Map();
const format = (kind, options) => {
  const key = `${kind.name}|${language.value}|${zoneShown()}|${JSON.stringify(options)}`;
  if (!cache.has(key)) cache.set(key, new kind(language.value, options));
  return cache.get(key);
};
export const number = (value, options = {}) => format(Intl.NumberFormat, options).format(value);
export const percent = (value, digits = 1) => number(value, {style: "percent", maximumFractionDigits: digits});
const dates = (options) => format(Intl.DateTimeFormat, {hourCycle: "h23", timeZone: zoneName(), ...options});
export const dateTime = (ms) => (ms === null || ms === undefined ? "–" : dates({year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit"}).format(ms));
export const clock = (ms) => (ms === null || ms === undefined ? "–" : dates({hour: "2-digit", minute: "2-digit", second: "2-digit"}).format(ms));
export const day = (ms) => dates({year: "numeric", month: "2-digit", day: "2-digit"}).format(ms);
export const dayOf = (ms, options) => dates(options).format(ms);

/** A stretch of time: 850 ms, 12.4 s, 3 m 20 s, 2 h 5 m, 3 d 4 h. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const unit = (value, name, digits = 0) => number(value, {style: "unit", unit: name, unitDisplay: "narrow", maximumFractionDigits: digits});
  if (ms < 1000) return unit(Math.round(ms), "millisecond");
  if (ms < 60_000) return unit(ms / 1000, "second", 1);
  const steps = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1000]];
  const first = steps.findIndex(([, size]) => ms >= size);
  const [large, small] = [steps[first], steps[first + 1]];
  const words = unit(Math.floor(ms / large[1]), large[0]);
  const rest = Math.floor((ms % large[1]) / small[1]);
  return rest ? `${words} ${unit(rest, small[0])}` : words;
}

/** How long ago, or until when: "3 minutes ago", "in 2 hours". */
export function ago(ms, nowMs) {
  if (ms === null || ms === undefined) return "–";
  const away = ms - nowMs;
  // days from the second on, and as numbers: on a Saturday, 30 hours away may be Monday, which no word for tomorrow is
  const steps = [["day", 86_400_000, 2], ["hour", 3_600_000, 1], ["minute", 60_000, 1], ["second", 1000, 0]];
  const [name, size] = steps.find(([, one, least]) => Math.abs(away) >= least * one);
  return format(Intl.RelativeTimeFormat, {numeric: name === "second" ? "auto" : "always"}).format(Math.trunc(away / size), name);
}

/** Names in the order of the language. */
export const byName = (one, other) => format(Intl.Collator, {numeric: true}).compare(one, other);
export const firstWeekday = () => { const locale = new Intl.Locale(language.value); return (locale.getWeekInfo?.() ?? locale.weekInfo)?.firstDay ?? 1; };
