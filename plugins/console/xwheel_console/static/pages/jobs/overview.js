// The first tab of a job: what it is set to, when it fires, and how it fared.
import {html} from "../../vendor/core.js";
import {get} from "../../api.js";
import {dateTime, duration, firstWeekday, language, number, t} from "../../i18n.js";
import {go} from "../../router.js";
import {useLoad} from "../../store.js";
import {Chart, colour} from "../../components/chart.js";
import {Duration, Facts, Panel, RunBadge, Time, isOpen, runMs} from "../../components/ui.js";
import {Fires, ScheduleWords} from "./schedule.js";
import {fieldLabel, fieldValue, reasonWords} from "./words.js";

const DAY_MS = 86_400_000;
/** What is always said of a job, and what only where it differs from what new jobs have. */
const ALWAYS = ["timezone", "misfire_policy", "route_strategy", "block_strategy", "timeout_s", "max_retries"];
const DEFAULTS = {
  start_ms: null, end_ms: null, jitter_ms: 0, misfire_threshold_ms: null, route_options: "", block_scope: "executor", retry_backoff: "fixed", retry_delay_ms: 0, retry_delays_ms: [],
  retry_max_delay_ms: 0, retry_jitter_pct: 0, delivery: "at_least_once", recover_lost: false, join_mode: "any", retention_days: 0, log_retention_days: 0, wait_for_executor_s: 0,
  calendar_exclude: [], calendar_require: [],
};

function Settings({job}) {
  const other = Object.keys(DEFAULTS).filter((name) => JSON.stringify(job[name]) !== JSON.stringify(DEFAULTS[name]));
  return html`${job.description && html`<p class="described" tabindex="0" role="region" aria-label=${fieldLabel("description")}><bdi>${job.description}</bdi></p>`}
    <${Facts} items=${[
    [t("jobs.schedule"), html`<${ScheduleWords} job=${job} />`],
    [t("jobs.next"), html`<${Time} ms=${job.next_fire_ms} />`],
    [t("job.last"), html`<${Time} ms=${job.last_fire_ms} />`],
    [fieldLabel("glue_type"), job.glue_type],
    [fieldLabel("handler"), job.handler && html`<code>${job.handler}</code>`],
    [fieldLabel("param"), job.param && html`<code class="clip-text" tabindex=${job.param.length > 100 ? "0" : null}>${job.param.length > 300 ? `${job.param.slice(0, 300)}…` : job.param}</code>`],
    ...[...ALWAYS, ...other].map((name) => [fieldLabel(name), fieldValue(name, job[name])]),
    [t("job.updated"), html`<${Time} ms=${job.updated_ms} />`],
  ]} />`;
}

function LastRuns({runs}) {
  if (!runs.length) return html`<p class="empty">${t("job.noRuns")}</p>`;
  return html`<div class="table-frame"><table class="list" data-list="last"><thead><tr>${["run", "state", "due", "took", "message"].map((key) => html`<th scope="col">${t(`job.col.${key}`)}</th>`)}</tr></thead>
    <tbody>${runs.slice(0, 10).map((run) => html`<tr key=${run.id}><td data-label=${t("job.col.run")}><a href="#/runs/${run.id}">${run.id}</a></td><td data-label=${t("job.col.state")}><${RunBadge} run=${run} /></td>
      <td data-label=${t("job.col.due")}><${Time} ms=${run.due_ms} /></td><td data-label=${t("job.col.took")}><${Duration} ms=${runMs(run)} /></td><td class="clip" data-label=${t("job.col.message")}><span>${run.reason ? reasonWords(run.reason) : run.message}</span></td></tr>`)}</tbody></table></div>`;
}

const tones = {succeeded: "good", failed: "bad", timed_out: "bad", lost: "lost"};
function Trend({runs}) {
  const ended = runs.filter((run) => !isOpen(run) && runMs(run) !== null).reverse();
  if (ended.length < 2) return html`<p class="empty">${t("job.noTrend")}</p>`;
  const took = ended.map(runMs), middle = [...took].sort((one, other) => one - other)[Math.floor(took.length / 2)];
  const axis = {axisLabel: {color: colour("faint")}, axisLine: {lineStyle: {color: colour("line")}}, splitLine: {lineStyle: {color: colour("line")}}};
  return html`<${Chart} name="durations" height=${220} label=${t("job.trendLabel", {count: ended.length, middle: duration(middle), most: duration(Math.max(...took))})} deps=${[ended.map((run) => `${run.id}${run.state}`).join()]}
    table=${{heads: [t("job.col.run"), t("job.col.due"), t("job.col.state"), t("job.col.took")], rows: ended.map((run, index) => [run.id, dateTime(run.due_ms), t(`state.${run.state}`), duration(took[index])])}}
    onPick=${(params) => go(`/runs/${ended[params.dataIndex].id}`)}
    option=${() => ({
    grid: {left: 8, right: 8, top: 16, bottom: 8, containLabel: true},
    tooltip: {trigger: "axis", confine: true, formatter: ([{dataIndex}]) => `${ended[dataIndex].id} · ${t(`state.${ended[dataIndex].state}`)} · ${duration(took[dataIndex])}`},
    xAxis: {type: "category", data: ended.map((run) => run.id), ...axis, splitLine: {show: false}},
    yAxis: {type: "value", ...axis, axisLabel: {...axis.axisLabel, formatter: duration}},
    series: [{type: "bar", barMaxWidth: 18, data: ended.map((run, index) => ({value: took[index], itemStyle: {color: colour(tones[run.state] ?? "calm")}})), markLine: {silent: true, symbol: "none", label: {color: colour("text"), position: "insideEndTop", formatter: () => duration(middle)}, lineStyle: {color: colour("faint")}, data: [{yAxis: middle}]}}],
  })} />`;
}

const badOf = (counts) => counts.failed + counts.timed_out + counts.lost + counts.refused;
const allOf = (counts) => counts.succeeded + badOf(counts) + counts.killed + counts.cancelled;
function Heat({report}) {
  const days = report.items.map(({from_ms: ms, counts}) => ({date: new Date(ms).toISOString().slice(0, 10), ms, all: allOf(counts), bad: badOf(counts)})).filter((one) => one.all);
  if (!days.length) return html`<p class="empty">${t("job.noReport")}</p>`;
  const all = days.reduce((sum, one) => sum + one.all, 0), bad = days.reduce((sum, one) => sum + one.bad, 0);
  return html`<${Chart} name="days" height=${170} label=${t("job.heatLabel", {days: number(days.length), all: number(all), bad: number(bad)})} deps=${[JSON.stringify(days)]}
    table=${{heads: [t("job.col.day"), t("job.col.runs"), t("job.col.bad")], rows: days.map((one) => [one.date, one.all, one.bad])}}
    onPick=${(params) => go("/runs", {job: report.jobId, from: Date.parse(params.value[0]), to: Date.parse(params.value[0]) + DAY_MS})}
    option=${() => ({
    tooltip: {confine: true, formatter: ({value}) => { const one = days.find((item) => item.date === value[0]); return `${value[0]} · ${t("job.dayTip", {all: number(one.all), bad: number(one.bad)})}`; }},
    visualMap: {show: false, min: 0, max: 1, dimension: 1, inRange: {color: [colour("good"), colour("busy"), colour("bad")]}},
    calendar: {left: 40, right: 8, top: 24, bottom: 4, cellSize: ["auto", 15], range: [new Date(report.from_ms).toISOString().slice(0, 10), new Date(report.to_ms - 1).toISOString().slice(0, 10)],
      itemStyle: {color: colour("raised"), borderColor: colour("line")}, splitLine: {lineStyle: {color: colour("faint")}}, yearLabel: {show: false},
      dayLabel: {color: colour("faint"), firstDay: firstWeekday() % 7, nameMap: Array.from({length: 7}, (_, index) => new Intl.DateTimeFormat(language.value, {weekday: "narrow", timeZone: "UTC"}).format(Date.UTC(2023, 0, 1 + index)))},
      monthLabel: {color: colour("faint"), nameMap: Array.from({length: 12}, (_, index) => new Intl.DateTimeFormat(language.value, {month: "short", timeZone: "UTC"}).format(Date.UTC(2023, index, 15)))}},
    series: [{type: "heatmap", coordinateSystem: "calendar", data: days.map((one) => [one.date, one.bad / one.all])}],
  })} />`;
}

export function Overview({job}) {
  const mine = (event) => event.kind === "run" && event.job_id === job.id;
  const runs = useLoad((abort) => get("runs", {job_id: job.id, limit: 60}, {abort}), [job.id], {when: mine});
  const report = useLoad(async (abort) => {
    const to = Math.ceil(Date.now() / DAY_MS) * DAY_MS;
    return {...await get("reports", {job_id: job.id, by: "day", from_ms: to - 365 * DAY_MS, to_ms: to}, {abort}), jobId: job.id};
  }, [job.id], {when: mine, everyMs: 30_000});
  return html`<section class="card"><h2>${t("job.settings")}</h2><${Settings} job=${job} /></section>
    <div class="columns wordy">
      <section class="card" data-part="fires"><h2>${t("fires.title")}</h2><p class="faint">${t("fires.zone", {zone: job.timezone})}</p><${Fires} job=${job} /></section>
      <section class="card" data-part="last"><h2>${t("job.lastRuns")}</h2><${Panel} of=${runs}>${runs.data && html`<${LastRuns} runs=${runs.data.items} />`}<//></section>
    </div>
    <section class="card" data-part="trend"><h2>${t("job.trend")}</h2><${Panel} of=${runs}>${runs.data && html`<${Trend} runs=${runs.data.items} />`}<//></section>
    <section class="card" data-part="heat"><h2>${t("job.heat")}</h2><${Panel} of=${report}>${report.data && html`<${Heat} report=${report.data} />`}<//></section>`;
}
