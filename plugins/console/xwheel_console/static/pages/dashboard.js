// The dashboard: is anything broken, how do runs fare, what comes next.
import {html, useEffect, useSignal} from "../vendor/core.js";
import {get} from "../api.js";
import {rerun} from "../actions.js";
import {clock, dateTime, dayOf, number, percent, t} from "../i18n.js";
import {go, link, setQuery} from "../router.js";
import {counts, now, useLoad} from "../store.js";
import {Act} from "../components/dialog.js";
import {Chart, colour} from "../components/chart.js";
import {Heat} from "../components/heat.js";
import {added} from "../components/plugins.js";
import {DAY_MS, HOUR_MS} from "../components/range.js";
import {RESULTS, buckets, failedOf, rateOf, runsOf} from "../components/reports.js";
import {FAILED, JobLink, mayRerun, whyOf} from "../components/runs.js";
import {Badge, Panel, Time} from "../components/ui.js";

const SHOWN = 8;
const REPORT_MS = 15_000;
const onRun = (event) => event.kind === "run";
const LINES = [["succeeded", "good", "solid", (of) => of.succeeded], ["failed", "bad", "solid", failedOf], ["killed", "calm", "dashed", (of) => of.killed]];
const STATES_OF = {succeeded: "succeeded", failed: FAILED, killed: "killed"};

/** The stretch of time of the trend: {fromMs, toMs, by, sizeMs}; days are those of UTC, as nodes count them. */
export function spanOf(query, nowMs) {
  const day = (text) => (/^\d{4}-\d{2}-\d{2}$/.test(text ?? "") ? Date.parse(`${text}T00:00Z`) : NaN);
  const today = Math.floor(nowMs / DAY_MS) * DAY_MS;
  if (query.range === "7d" || query.range === "30d") return {fromMs: today - (parseInt(query.range, 10) - 1) * DAY_MS, toMs: nowMs, by: "day", sizeMs: DAY_MS};
  const from = day(query.from), to = day(query.to);
  if (query.range === "own" && from <= to && to - from < 399 * DAY_MS) {
    const isShort = to - from < 2 * DAY_MS;
    return {fromMs: from, toMs: to + DAY_MS, by: isShort ? "hour" : "day", sizeMs: isShort ? HOUR_MS : DAY_MS};
  }
  return {fromMs: (Math.floor(nowMs / HOUR_MS) - 23) * HOUR_MS, toMs: nowMs, by: "hour", sizeMs: HOUR_MS};
}

function Tiles() {
  const minute = Math.floor(now.value / 60_000) * 60_000;
  const of = useLoad(async (abort) => {
    const [overview, before] = await Promise.all([
      get("overview", {}, {abort}), get("reports", {from_ms: minute - 2 * DAY_MS, to_ms: minute - DAY_MS, limit: 1}, {abort}),
    ]);
    return {overview, before: before.totals};
  }, [Math.floor(minute / 300_000)], {when: (event) => ["run", "job", "pause", "group"].includes(event.kind), everyMs: REPORT_MS});
  const live = counts.value;
  const {overview, before} = of.data ?? {};
  const day = overview?.last_day;
  const delta = day ? failedOf(day) - failedOf(before) : 0;
  const tile = (name, href, words, figure, under, tone = "") => html`<a class="tile ${tone}" href=${href} data-tile=${name}>${words}<strong>${figure}</strong><span class="under">${under}</span></a>`;
  // as high as what comes: nothing moves away under a pointer
  const waiting = html`<div class="tiles six">${["nav.jobs", "dash.runs", "dash.failed", "dash.rate", "nav.nodes", "dash.waiting"].map((words) => html`<div class="tile">${t(words)}<strong>–</strong><div class="under">${t("state.loading")}</div></div>`)}</div>`;
  return html`<${Panel} of=${of} label=${t("dash.tiles")} waiting=${waiting}>${day && html`<div class="tiles six">
    ${tile("jobs", "#/jobs", t("nav.jobs"), number(overview.jobs), t("dash.scheduled", {count: overview.scheduled_jobs}))}
    ${tile("runs", link("/runs", {range: "24h"}), t("dash.runs"), number(runsOf(day)), t("dash.open", {count: live?.running ?? overview.open_runs}))}
    ${tile("failed", link("/runs", {range: "24h", state: FAILED}), t("dash.failed"), number(failedOf(day)), delta === 0 ? t("dash.asBefore") : t(delta > 0 ? "dash.more" : "dash.fewer", {count: Math.abs(delta)}), failedOf(day) ? "bad" : "")}
    ${tile("rate", link("/runs", {range: "24h"}), t("dash.rate"), rateOf(day) === null ? "–" : percent(rateOf(day)), t("dash.ofEnded"))}
    ${tile("nodes", "#/nodes", t("nav.nodes"), live ? number(live.nodes) : "–", live?.nodes_away ? t("count.away", {count: live.nodes_away}) : t("dash.executors", {count: overview.executors}), live?.nodes_away ? "bad" : "")}
    ${tile("waiting", link("/runs", {state: "planned"}), t("dash.waiting"), live ? number(live.waiting) : number(overview.planned_runs), live?.late ? t("count.late", {count: live.late}) : t("dash.inTime"), live?.late ? "busy" : "")}
  </div>`}<//>`;
}

function Ranges({query}) {
  const current = ["7d", "30d", "own"].includes(query.range) ? query.range : "24h";
  const day = (ms) => new Date(ms).toISOString().slice(0, 10);
  return html`<div class="ranges" role="group" aria-label=${t("range.label")}>
    ${["24h", "7d", "30d"].map((key) => html`<a class="small" href=${link("/", {range: key === "24h" ? undefined : key})} aria-current=${key === current ? "true" : null}>${t(`range.${key}`)}</a>`)}
    <a class="small" href=${link("/", {range: "own", from: query.from ?? day(now.peek() - 6 * DAY_MS), to: query.to ?? day(now.peek())})} aria-current=${current === "own" ? "true" : null}>${t("range.own")}</a>
    ${current === "own" && ["from", "to"].map((name) => html`<label>${t(`range.${name}`)} <input type="date" name=${name} value=${query[name] ?? ""} onChange=${(event) => setQuery({[name]: event.target.value})} /></label>`)}
    ${current !== "24h" && html`<span class="faint">${t("dash.utc")}</span>`}</div>`;
}

function trend(shown, by) {
  const label = (ms) => dayOf(ms, by === "hour" ? {hour: "2-digit", minute: "2-digit"} : {timeZone: "UTC", month: "2-digit", day: "2-digit"});
  return {
    grid: {left: 50, right: 15, top: 34, bottom: 28}, legend: {top: 0, textStyle: {color: colour("text")}},
    tooltip: {trigger: "axis", renderMode: "richText"},
    xAxis: {type: "category", data: shown.map((item) => label(item.from_ms)), boundaryGap: false, axisLabel: {color: colour("faint"), hideOverlap: true}},
    yAxis: {type: "value", minInterval: 1, axisLabel: {color: colour("faint")}, splitLine: {lineStyle: {color: colour("line")}}},
    series: LINES.map(([key, tone, type, value]) => ({name: t(`dash.line.${key}`), id: key, type: "line", symbol: key === "failed" ? "diamond" : "circle", symbolSize: 8, showSymbol: shown.length < 90, triggerLineEvent: false, lineStyle: {type}, itemStyle: {color: colour(tone)}, data: shown.map((item) => value(item.counts))})),
  };
}

function ring(totals) {
  const tones = {succeeded: "good", failed: "bad", timed_out: "bad", lost: "lost", refused: "bad", killed: "calm", cancelled: "calm", skipped: "calm", open_runs: "busy"};
  return {
    tooltip: {trigger: "item", renderMode: "richText"},
    series: [{
      type: "pie", radius: ["48%", "72%"], emptyCircleStyle: {color: colour("line")}, label: {color: colour("text"), formatter: "{c}\n{b}", lineHeight: 14}, itemStyle: {borderColor: colour("page"), borderWidth: 2},
      data: RESULTS.filter((name) => totals[name]).map((name) => ({id: name, name: t(`result.${name}`), value: totals[name], itemStyle: {color: colour(tones[name])}})),
    }],
  };
}

function Charts({query}) {
  const span = spanOf(query, now.value);
  const key = `${span.fromMs}/${span.by}/${query.range === "own" ? span.toMs : ""}`;
  const of = useLoad((abort) => get("reports", {from_ms: span.fromMs, to_ms: Math.max(span.toMs, span.fromMs + 1), by: span.by}, {abort}), [key], {when: onRun, everyMs: REPORT_MS});
  const shown = of.data ? buckets(of.data.items, span.fromMs, span.toMs, span.sizeMs) : [];
  const totals = of.data?.totals;
  const pick = ({seriesId, dataIndex}) => { const item = shown[dataIndex]; if (item) go("/runs", {state: STATES_OF[seriesId], from: item.from_ms, to: item.from_ms + span.sizeMs}); };
  const pickResult = ({data}) => go("/runs", {state: data.id === "open_runs" ? "planned,dispatching,running" : data.id, from: span.fromMs, to: Math.min(span.toMs, now.peek() + DAY_MS)});
  const date = {year: "numeric", month: "2-digit", day: "2-digit"};
  const when = (ms) => dayOf(ms, span.by === "hour" ? {...date, hour: "2-digit", minute: "2-digit"} : {timeZone: "UTC", ...date});
  return html`<${Ranges} query=${query} /><${Panel} of=${of}>${totals && html`<div class="columns wide-left">
    <${Chart} name="trend" label=${t("dash.trend", {good: number(totals.succeeded), bad: number(failedOf(totals))})} option=${() => trend(shown, span.by)} deps=${[of.data, key]} onPick=${pick}
      table=${{heads: [t("dash.time"), ...LINES.map(([name]) => t(`dash.line.${name}`))], rows: shown.map((item) => [when(item.from_ms), ...LINES.map(([, , , value]) => value(item.counts))])}} />
    <${Chart} name="results" label=${t("dash.ring", {count: RESULTS.reduce((sum, name) => sum + totals[name], 0)})} option=${() => ring(totals)} deps=${[of.data]} onPick=${pickResult}
      table=${{heads: [t("filter.state"), t("dash.count")], rows: RESULTS.map((name) => [t(`result.${name}`), totals[name]])}} /></div>`}<//>`;
}

function Failures() {
  const of = useLoad((abort) => get("runs", {state: FAILED.split(","), limit: SHOWN}, {abort}), [], {when: onRun});
  return html`<section><h2>${t("dash.failures")}</h2><${Panel} of=${of} isEmpty=${!of.data?.items.length} empty=${t("dash.noFailures")}>
    <ul class="short-list" data-list="failures">${of.data?.items.map((run) => html`<li key=${run.id} data-id=${run.id}><${Badge} state=${run.state} /><span class="grow"><${JobLink} run=${run} /> <span class="faint"><${Time} ms=${run.due_ms} relative=${true} /></span><span class="under"><bdi>${(run.message.split("\n")[0] || whyOf(run) || "").slice(0, 200)}</bdi></span></span>
      <a href="#/runs/${run.id}" aria-label=${t("dash.logOf", {id: String(run.id)})}>${t("action.log")}</a>${mayRerun(run) && html`<${Act} class="link small" run=${() => rerun(run)} aria-label=${t("dash.again", {id: String(run.id)})}>${t("action.rerun")}<//>`}</li>`)}</ul>
    <p><a href=${link("/runs", {state: FAILED})}>${t("dash.allFailures")}</a></p><//></section>`;
}

function Upcoming() {
  const of = useLoad((abort) => get("schedule/upcoming", {until_ms: now.peek() + HOUR_MS, limit: SHOWN}, {abort}), [Math.floor(now.value / 60_000)], {when: (event) => ["job", "pause", "group", "calendar"].includes(event.kind)});
  return html`<section><h2>${t("dash.upcoming")}</h2><${Panel} of=${of} isEmpty=${!of.data?.items.length} empty=${counts.value?.paused_since_ms ? t("dash.paused") : t("dash.nothingComes")}>
    <ul class="short-list" data-list="upcoming">${of.data?.items.map((item) => html`<li key=${item.job_id}><time class="number" datetime=${new Date(item.due_ms).toISOString()} title=${dateTime(item.due_ms)}>${clock(item.due_ms)}</time><span class="grow"><a href="#/jobs/${item.job_id}"><bdi>${item.job_name}</bdi></a> <span class="faint"><bdi>${item.app_name}</bdi></span></span></li>`)}</ul><//></section>`;
}

function Year() {
  const today = Math.floor(now.value / DAY_MS) * DAY_MS;
  const of = useLoad((abort) => get("reports", {from_ms: today - 371 * DAY_MS, to_ms: today + DAY_MS, by: "day"}, {abort}), [today], {when: onRun, everyMs: 4 * REPORT_MS});
  return html`<section><h2>${t("heat.title")}</h2><${Panel} of=${of}>${of.data && html`<${Heat} items=${of.data.items} nowMs=${now.peek()} />`}<//></section>`;
}

/** A tile of a plugin; one that cannot be loaded is left out, and the console says why. */
function PluginTile({item}) {
  const view = useSignal(null);
  useEffect(() => { item.load().then((module) => { view.value = {of: module.default}; }, (error) => console.warn(`a tile of plugin ${item.plugin} cannot be loaded:`, error)); }, [item]);
  const View = view.value?.of;
  return View ? html`<${View} />` : null;
}

export default function Dashboard({query}) {
  const {tiles} = added.value;
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.dashboard")}</h1></div>
    <${Tiles} /><${Charts} query=${query} />
    <div class="columns"><${Failures} /><${Upcoming} /></div>
    <${Year} />${tiles.length > 0 && html`<div class="tiles" data-list="plugins">${tiles.map((item) => html`<${PluginTile} item=${item} />`)}</div>`}`;
}
