// What a schedule says: its words, its next fires and the week ahead. All of it is worked out by the node.
import {html, useEffect, useSignal} from "../../vendor/core.js";
import {ApiError, get} from "../../api.js";
import {dateTime, has, language, number, t} from "../../i18n.js";
import {now, useLoad} from "../../store.js";
import {Panel, Time} from "../../components/ui.js";

const FIELDS = ["schedule_type", "schedule_conf", "timezone", "anchor_ms", "start_ms", "end_ms", "calendar_exclude", "calendar_require"];
export const MOST = 100;
const MOST_WORDS = 100;
const DAY_MS = 86_400_000;
const WITH_WORDS = new Set(["CRON", "UNIX_CRON"]);

/** What the preview is asked about a job. */
export const scheduleOf = (job) => Object.fromEntries(FIELDS.map((name) => [name, job[name]]));
export const preview = (schedule, abort) => get("schedule/preview", {...schedule, count: MOST}, {abort});
export const typeWords = (type) => (has(`schedule.type.${type}`) ? t(`schedule.type.${type}`) : type);

/** Words of cron expressions, by type and expression; all that a page shows are asked for at once. */
const known = new Map();
const waiting = new Map();
const keyOf = (job) => `${job.schedule_type} ${job.schedule_conf}`;
async function ask() {
  const mine = [...waiting].slice(0, MOST_WORDS);
  for (const [key] of mine) waiting.delete(key);
  if (waiting.size) setTimeout(ask);
  let items = [];
  try { ({items} = await get("schedule/words", {job_id: mine.map(([, {id}]) => id)})); } catch (error) { if (!(error instanceof ApiError)) throw error; }
  const found = new Map(items.map((item) => [keyOf(item), item.description]));
  for (const [key, {done}] of mine) {
    if (!found.has(key)) known.delete(key); // it was changed meanwhile, or the node cannot say: it is asked again
    done(found.get(key) ?? null);
  }
}
function describe(job) {
  const key = keyOf(job);
  if (!known.has(key)) {
    known.set(key, new Promise((done) => {
      if (!waiting.size) setTimeout(ask); // when all rows are drawn
      waiting.set(key, {id: job.id, done});
    }));
  }
  return known.get(key);
}

/** A schedule in words, with what its author wrote below. */
export function ScheduleWords({job}) {
  const {schedule_type: type, schedule_conf: conf} = job;
  const words = useSignal(null);
  useEffect(() => {
    words.value = null;
    if (!WITH_WORDS.has(type)) return undefined;
    let isGone = false;
    describe(job).then((found) => { if (!isGone) words.value = found; });
    return () => { isGone = true; };
  }, [type, conf]);
  const said = WITH_WORDS.has(type) ? words.value?.[language.value === "zh-CN" ? "zh" : "en"]
    : has(`schedule.say.${type}`) ? t(`schedule.say.${type}`, {conf}) : typeWords(type);
  return html`<span data-words=${type}>${said ?? typeWords(type)}</span>${conf && html`<span class="under"><code title=${conf}>${conf}</code></span>`}`;
}

const offsetOf = (local) => /(Z|[+-]\d\d:\d\d)$/.exec(local)?.[0] ?? "";
const wallOf = (local) => local.slice(0, 19).replace("T", " ");

/** What is to be said of a fire besides the one before it: that clocks change in between, or show the time twice. */
export function markOf(item, before) {
  if (!before || offsetOf(item.local) === offsetOf(before.local)) return null;
  return wallOf(item.local) === wallOf(before.local) ? t("fires.twice") : t("fires.clocks", {from: offsetOf(before.local), to: offsetOf(item.local)});
}

/** The next fires as a list, in the zone of the schedule; `together` counts other jobs by due time. */
export function FireList({items, count = 10, together = new Map()}) {
  if (!items.length) return html`<p class="empty" data-fires="none">${t("fires.never")}</p>`;
  return html`<ol class="fires" data-fires=${items.length}>${items.slice(0, count).map((item, index) => {
    const mark = markOf(item, items[index - 1]);
    const others = together.get(item.due_ms) ?? 0;
    return html`<li key=${item.due_ms} data-due=${item.due_ms}><span class="number" title=${dateTime(item.due_ms)}>${wallOf(item.local)} <span class="faint">${offsetOf(item.local)}</span></span> <span class="faint"><${Time} ms=${item.due_ms} relative /></span>
      ${mark && html`<span class="badge busy" data-mark="clocks">${mark}</span>`}${others > 0 && html`<span class="badge calm" data-mark="together">${t("fires.together", {count: others})}</span>`}</li>`;
  })}</ol>${items.length < count && html`<p class="faint">${t("fires.ends")}</p>`}`;
}

/** The dates of the next seven days in a zone, as 2026-11-23. */
function weekOf(zone, fromMs) {
  const format = new Intl.DateTimeFormat("en-CA", {timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit"});
  return Array.from({length: 7}, (_, index) => format.format(fromMs + index * DAY_MS));
}

/** The week ahead: a row for each day, a field for each hour, darker the more fires it has. */
export function WeekStrip({items, zone}) {
  let days;
  try { days = weekOf(zone, now.peek()); } catch { return null; }
  const counts = new Map(days.map((day) => [day, new Array(24).fill(0)]));
  for (const {local} of items) { const hours = counts.get(local.slice(0, 10)); if (hours) hours[Number(local.slice(11, 13))] += 1; }
  const sum = (day) => counts.get(day).reduce((one, other) => one + other, 0);
  const weekday = (day) => new Intl.DateTimeFormat(language.value, {weekday: "short", day: "numeric", timeZone: "UTC"}).format(Date.parse(`${day}T12:00:00Z`));
  const isCut = items.length === MOST && items[MOST - 1].local.slice(0, 10) <= days[6];
  const label = t("fires.week", {days: days.map((day) => `${weekday(day)}: ${number(sum(day))}`).join(", ")});
  return html`<div class="week" role="img" aria-label=${label} data-week>${days.map((day) => html`<div class="day" data-day=${day} data-count=${sum(day)}><span class="day-name">${weekday(day)}</span>
    ${counts.get(day).map((count, hour) => html`<i class=${count ? `hour on${Math.min(3, Math.ceil(Math.log10(count + 1)))}` : "hour"} title="${String(hour).padStart(2, "0")}:00 · ${number(count)}"></i>`)}<span class="number faint">${number(sum(day))}</span></div>`)}</div>
  ${isCut && html`<p class="faint">${t("fires.cut", {count: MOST})}</p>`}`;
}

/** How many other jobs fire next at the very times of these fires; empty where the node cannot say. */
export async function countTogether(items, {jobId, groupId, abort}) {
  if (!items.length) return new Map();
  try {
    const found = await get("schedule/upcoming", {until_ms: items[Math.min(9, items.length - 1)].due_ms + 1, group_id: groupId, limit: 1000}, {abort});
    const times = new Map();
    for (const item of found.items) if (item.job_id !== jobId) times.set(item.due_ms, (times.get(item.due_ms) ?? 0) + 1);
    return times;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return new Map();
  }
}

/** The next ten fires of a job and its week ahead. */
export function Fires({job}) {
  const key = JSON.stringify(scheduleOf(job));
  const load = useLoad(async (abort) => {
    const found = await preview(scheduleOf(job), abort);
    return {...found, together: await countTogether(found.items, {jobId: job.id, groupId: job.group_id, abort})};
  }, [key, job.next_fire_ms]);
  if (job.schedule_type === "NONE") return html`<p class="empty">${t("schedule.say.NONE")}</p>`;
  return html`<${Panel} of=${load}>${load.data && html`<${FireList} items=${load.data.items} together=${load.data.together} /><${WeekStrip} items=${load.data.items} zone=${job.timezone} />`}<//>`;
}
