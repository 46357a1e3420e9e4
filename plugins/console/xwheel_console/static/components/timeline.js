// What ran when, as bars: a row for each executor or each job, to see what overlapped and who was idle (C3).
import {html} from "../vendor/core.js";
import {getAll} from "../api.js";
import {clock, dateTime, duration, number, t} from "../i18n.js";
import {go, place, setQuery} from "../router.js";
import {now, useLoad} from "../store.js";
import {Chart, colour} from "./chart.js";
import {Panel, isOpen, toneOf} from "./ui.js";

const MOST_BARS = 5000;
const MOST_ROWS = 40;
const MOST_IN_TABLE = 500;

function bars(runs, by, nowMs) {
  const rows = [], found = [];
  for (const run of runs) {
    const began = run.began_ms ?? (run.accepted_ms === null ? run.dispatched_ms : null);
    if (began === null) continue;
    const name = by === "job" ? run.job_name : run.address ?? "–";
    let at = rows.indexOf(name);
    if (at < 0) { if (rows.length >= MOST_ROWS) continue; at = rows.push(name) - 1; }
    found.push({run, value: [at, began, run.finished_ms ?? (isOpen(run) ? nowMs : began)]});
  }
  return {rows, found};
}

function option({rows, found}) {
  const tones = Object.fromEntries(["good", "bad", "busy", "calm", "lost"].map((name) => [name, colour(name)]));
  return {
    grid: {left: 170, right: 20, top: 10, bottom: 60},
    tooltip: {trigger: "item", renderMode: "richText", formatter: ({data}) => `#${data.run.id} ${data.run.job_name.slice(0, 60)}\n${t(`state.${data.run.state}`)} · ${dateTime(data.value[1])} · ${duration(data.value[2] - data.value[1])}`},
    xAxis: {type: "time", axisLabel: {formatter: (ms) => clock(ms), color: colour("faint"), hideOverlap: true, fontSize: 12, showMaxLabel: false}, splitLine: {show: true, lineStyle: {color: colour("line")}}},
    yAxis: {type: "category", data: rows, inverse: true, axisLabel: {width: 155, overflow: "truncate", color: colour("text")}},
    dataZoom: [{type: "slider", height: 20, bottom: 8, showDataShadow: false, labelFormatter: (ms) => clock(ms)}, {type: "inside", zoomOnMouseWheel: "ctrl"}],
    series: [{
      type: "custom", encode: {x: [1, 2], y: 0}, data: found.map((item) => ({...item, itemStyle: {color: tones[toneOf(item.run.state)]}})),
      renderItem: (params, api) => {
        const begin = api.coord([api.value(1), api.value(0)]), end = api.coord([api.value(2), api.value(0)]);
        const height = Math.min(18, api.size([0, 1])[1] * 0.7), {x, width} = params.coordSys;
        const from = Math.max(x, begin[0]), to = Math.min(x + width, Math.max(end[0], begin[0] + 2));
        return to < from ? null : {type: "rect", shape: {x: from, y: begin[1] - height / 2, width: to - from, height, r: 2}, style: {fill: api.visual("color")}};
      },
    }],
  };
}

/** Runs of some filters as bars, at most 5,000. */
export function Timeline({filters}) {
  const by = place.value.query.by === "job" ? "job" : "address";
  const key = JSON.stringify(filters);
  const of = useLoad((abort) => getAll("runs", filters, MOST_BARS, {abort}).then((items) => items.slice(0, MOST_BARS)), [key], {when: (event) => event.kind === "run", everyMs: 5000});
  const made = bars(of.data ?? [], by, now.peek());
  const label = t("timeline.label", {count: made.found.length, rows: number(made.rows.length)});
  const table = {
    heads: [t("runs.id"), t("runs.job"), t("runs.address"), t("filter.state"), t("runs.started"), t("runs.took")],
    rows: made.found.slice(0, MOST_IN_TABLE).map(({run, value}) => [run.id, run.job_name, run.address, t(`state.${run.state}`), dateTime(value[1]), duration(value[2] - value[1])]),
  };
  return html`<p class="ranges"><label for="timeline-by">${t("timeline.by")}</label> <select id="timeline-by" class="small" onChange=${(event) => setQuery({by: event.target.value})}><option value="address" selected=${by === "address"}>${t("runs.address")}</option><option value="job" selected=${by === "job"}>${t("runs.job")}</option></select>
      <span class="faint">${label}${(of.data?.length ?? 0) >= MOST_BARS ? ` ${t("timeline.most", {count: MOST_BARS})}` : ""}</span></p>
    <${Panel} of=${of} isEmpty=${!made.found.length} empty=${t("timeline.none")}>
      <${Chart} name="timeline" label=${label} option=${() => option(made)} deps=${[of.data, by]} table=${table} height=${Math.max(180, 90 + 26 * made.rows.length)} onPick=${({data}) => data?.run && go(`/runs/${data.run.id}`)} /><//>`;
}
