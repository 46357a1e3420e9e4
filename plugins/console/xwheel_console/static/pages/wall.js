// A display on a wall: what can be read from across the room, kept fresh by itself, nothing to press.
import {html} from "../vendor/core.js";
import {away, get} from "../api.js";
import {ago, clock, dayOf, number, percent, t, zoneShown} from "../i18n.js";
import {counts, heardMs, now, useLoad} from "../store.js";
import {failedOf, rateOf} from "../components/reports.js";
import {FAILED, whyOf} from "../components/runs.js";
import {Badge, Panel, PauseMark, Time} from "../components/ui.js";

const SHOWN = 6;
const REPORT_MS = 15_000;

export default function Wall() {
  const live = counts.value;
  const minute = Math.floor(now.value / 60_000);
  const overview = useLoad((abort) => get("overview", {}, {abort}), [Math.floor(minute / 5)], {when: (event) => ["run", "job", "pause"].includes(event.kind), everyMs: REPORT_MS});
  const failures = useLoad((abort) => get("runs", {state: FAILED.split(","), limit: SHOWN}, {abort}), [], {when: (event) => event.kind === "run"});
  const nodes = useLoad((abort) => get("nodes", {}, {abort}), [], {when: (event) => event.kind === "node"});
  const day = overview.data?.last_day;
  const tile = (name, words, figure, tone = "") => html`<div class="tile ${tone}" data-tile=${name}>${words}<strong>${figure}</strong></div>`;
  const figure = (value) => (value === undefined || value === null ? "–" : number(value));
  return html`<main class="wall">
    <header><h1 tabindex="-1">xwheel</h1><span class="clock"><time datetime=${new Date(now.value).toISOString()}>${clock(now.value)}</time></span><span class="faint">${dayOf(now.value, {weekday: "long", month: "long", day: "numeric"})} · ${zoneShown()}</span><a class="leave" href="#/">${t("wall.leave")}</a></header>
    ${away.value !== null && html`<div class="banner bad" role="status" data-banner="away">⚡ ${t("banner.away", {age: ago(heardMs.value ?? away.value, Date.now())})}</div>`}
    ${live?.paused_since_ms && html`<div class="banner" role="status" data-banner="paused"><${PauseMark} /> ${t("banner.paused")} <${Time} ms=${live.paused_since_ms} /></div>`}
    <div class="tiles">
      ${tile("running", t("wall.running"), figure(live?.running), live?.running ? "busy" : "")}
      ${tile("waiting", t("wall.waiting"), figure(live?.waiting))}
      ${tile("late", t("wall.late"), figure(live?.late), live?.late ? "bad" : "")}
      ${tile("failed", t("dash.failed"), figure(day && failedOf(day)), day && failedOf(day) ? "bad" : "")}
      ${tile("rate", t("dash.rate"), day && rateOf(day) !== null ? percent(rateOf(day)) : "–")}
      ${tile("executors", t("nav.executors"), figure(live?.executors), live?.executors === 0 ? "bad" : "")}
    </div>
    <div class="columns">
      <section><h2>${t("dash.failures")}</h2><${Panel} of=${failures} isEmpty=${!failures.data?.items.length} empty=${t("dash.noFailures")}><ul class="short-list" data-list="failures">${failures.data?.items.map((run) => html`<li key=${run.id}><${Badge} state=${run.state} /><span class="grow"><bdi>${run.job_name}</bdi><span class="faint under"><bdi>${(run.message.split("\n")[0] || whyOf(run) || "").slice(0, 120)}</bdi></span></span><${Time} ms=${run.due_ms} relative=${true} /></li>`)}</ul><//></section>
      <section><h2>${t("nav.nodes")}</h2><${Panel} of=${nodes} isEmpty=${!nodes.data?.items.length} empty="–"><ul class="node-list" data-list="nodes">${nodes.data?.items.map((node) => html`<li key=${node.id}><${Badge} state=${node.alive ? "up" : "away"} words=${node.name} /></li>`)}</ul>${nodes.data?.partitions_without > 0 && html`<p class="field-error">${t("wall.without", {count: nodes.data.partitions_without})}</p>`}<//></section>
    </div></main>`;
}
