// Two runs next to each other: which facts differ, their parameters, results and logs.
import {html} from "../vendor/core.js";
import {get} from "../api.js";
import {dateTime, duration, t} from "../i18n.js";
import {useLoad} from "../store.js";
import {Diff, FieldDiff} from "../components/diff.js";
import {JobLink, partOf, whyOf} from "../components/runs.js";
import {Panel, RunBadge, Time, runMs} from "../components/ui.js";
import {readLine} from "../components/logtext.js";

const MOST_LINES = 2000;
// when a line was written differs in each run, and says nothing of what differs
const STAMP = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]?\d* ?/;

/** The last lines of a log without their times and colours, or why there are none. */
async function logOf(run, abort) {
  try {
    const piece = await get(`runs/${run.id}/log`, {tail: MOST_LINES}, {abort});
    const lines = piece.content.replace(/\n$/, "").split("\n").slice(-MOST_LINES);
    return {text: lines.map((line) => readLine(line).text.replace(STAMP, "").slice(0, 2000)).join("\n"), isWhole: piece.from_line === 1};
  } catch (error) {
    if (abort.aborted) throw error;
    return {text: "", isWhole: true, error};
  }
}

const facts = (run) => [
  [t("runs.job"), run.job_name], [t("filter.group"), run.app_name], [t("filter.state"), t(`state.${run.state}`)], [t("runs.why"), whyOf(run)], [t("runs.due"), dateTime(run.due_ms)],
  [t("runs.started"), dateTime(run.began_ms)], [t("runs.finished"), dateTime(run.finished_ms)], [t("runs.took"), duration(runMs(run))], [t("runs.address"), run.address],
  [t("runs.trigger"), t(`origin.${run.origin}`)], [t("runs.part"), partOf(run)], [t("runs.code"), run.result_code], [t("runs.instance"), run.instance],
];

function Head({run, words}) {
  return html`<section class="card" data-side=${words}><h2><a href="#/runs/${run.id}">${t("runs.title", {id: String(run.id)})}</a></h2><p><${RunBadge} run=${run} /> <${JobLink} run=${run} /></p><p><${Time} ms=${run.due_ms} /> · ${duration(runMs(run))}</p></section>`;
}

export default function Compare({one, other}) {
  const of = useLoad(async (abort) => {
    const runs = await Promise.all([one, other].map((id) => get(`runs/${encodeURIComponent(id)}`, {}, {abort})));
    // one after the other: a node reads few logs at once
    const logs = [];
    for (const run of runs) logs.push(await logOf(run, abort));
    return {runs, logs};
  }, [one, other]);
  const {runs, logs} = of.data ?? {};
  let body = null;
  if (runs) {
    const [left, right] = runs.map(facts);
    const differ = left.map(([name, value], index) => [name, value, right[index][1]]).filter(([, before, after]) => (before || null) !== (after || null));
    const slower = (runMs(runs[1]) ?? 0) - (runMs(runs[0]) ?? 0);
    const texts = (name, words) => html`<h2>${words}</h2>${(runs[0][name] ?? "") === (runs[1][name] ?? "") ? html`<p class="faint" data-same=${name}>${t("compare.same")}</p>` : html`<${Diff} one=${runs[0][name] ?? ""} other=${runs[1][name] ?? ""} label=${words} />`}`;
    body = html`<div class="columns"><${Head} run=${runs[0]} words="one" /><${Head} run=${runs[1]} words="other" /></div>
      ${slower !== 0 && html`<p data-slower=${slower}>${t(slower > 0 ? "compare.slower" : "compare.faster", {time: duration(Math.abs(slower))})}</p>`}
      <h2>${t("compare.facts")}</h2><div class="table-frame"><${FieldDiff} items=${differ} heads=${runs.map((run) => t("runs.title", {id: String(run.id)}))} /></div>
      ${texts("param", t("runs.param"))}${texts("message", t("runs.message"))}
      <h2>${t("log.label")}</h2>${logs.filter((log) => log.error).map((log) => html`<p class="field-error">${log.error.message}</p>`)}
      ${logs.some((log) => !log.isWhole) && html`<p class="faint">${t("compare.lastLines", {count: MOST_LINES})}</p>`}
      ${logs[0].text === logs[1].text ? html`<p class="faint" data-same="log">${t("compare.same")}</p>` : html`<${Diff} one=${logs[0].text} other=${logs[1].text} label=${t("log.label")} />`}`;
  }
  return html`<div class="page-head"><h1 tabindex="-1">${t("compare.title", {one: String(one), other: String(other)})}</h1></div><${Panel} of=${of}>${body}<//>`;
}
