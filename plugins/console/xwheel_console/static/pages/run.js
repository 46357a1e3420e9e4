// A run: what became of it and why, what belongs to it, and its log while it is written.
import {html, useEffect} from "../vendor/core.js";
import {get, getAll} from "../api.js";
import {killRun, rerun} from "../actions.js";
import {duration, t} from "../i18n.js";
import {useKeys} from "../keys.js";
import {go, link} from "../router.js";
import {may, now, useLoad} from "../store.js";
import {Act, Menu, note} from "../components/dialog.js";
import {Log} from "../components/log.js";
import {visible} from "../components/logtext.js";
import {JobLink, Outcome, mayKill, mayRerun, partOf} from "../components/runs.js";
import {Copy, Facts, Panel, RunBadge, Time, isOpen, runMs, toneOf} from "../components/ui.js";
import {added} from "../components/plugins.js";

const OFTEN_MS = 5000;
const MOST_RELATED = 200;

/** The job's run before this one, or null. */
export async function runBefore(run) {
  const {items} = await get("runs", {job_id: run.job_id, after: `${run.due_ms}-${run.id}`, limit: 1});
  return items[0] ?? null;
}

/** The job's run after this one, or null; the list goes backwards, so it is looked for in growing stretches of time. */
export async function runAfter(run) {
  const endMs = now.value + 366 * 86_400_000;
  for (let span = 60_000; ; span *= 8) {
    const items = await getAll("runs", {job_id: run.job_id, from_ms: run.due_ms, to_ms: run.due_ms + span}, 5000);
    const later = items.filter((one) => one.due_ms > run.due_ms || one.id > run.id);
    if (later.length) return later.at(-1);
    if (run.due_ms + span > endMs) return null;
  }
}

function Related({run, items}) {
  const shards = items.filter((one) => one.root_id === run.root_id && one.shard_total > 1 && one.attempt === run.attempt).sort((one, other) => one.shard_index - other.shard_index);
  const others = items.filter((one) => one.id !== run.id && !shards.includes(one)).sort((one, other) => one.id - other.id);
  const relation = (one) => (one.root_id === run.root_id ? partOf(one) || t("runs.sameFire") : one.chain_depth < run.chain_depth ? t("runs.before") : one.chain_depth > run.chain_depth ? t("runs.child") : t("runs.sameChain"));
  return html`<div>
    ${shards.length > 1 && html`<h3>${t("runs.shards")}</h3><ul class="shards">${shards.map((one) => html`<li><a class=${toneOf(one.state)} href="#/runs/${one.id}" aria-current=${one.id === run.id ? "true" : null} title=${t(`state.${one.state}`)}>${one.shard_index + 1}<span class="only-read"> ${t(`state.${one.state}`)}</span></a></li>`)}</ul>`}
    ${others.length > 0 && html`<h3>${t("runs.related")}</h3><ul class="short-list" data-list="related">${others.map((one) => html`<li><a href="#/runs/${one.id}">#${one.id}</a> <span class="grow"><bdi>${one.job_name}</bdi> <span class="faint">${relation(one)}</span></span><${RunBadge} run=${one} /></li>`)}</ul>
      <p><a href=${link("/runs", {chain: run.chain_id})}>${t("runs.wholeChain")}</a></p>`}
  </div>`;
}

function Details({run, related}) {
  const param = run.param === null ? html`<span class="faint">${t("runs.jobsParam")}</span>` : run.param === "" ? html`<span class="faint">${t("runs.empty")}</span>` : html`<pre class="value" tabindex="0" data-value="param">${visible(run.param, {lines: true})}</pre>`;
  return html`<div>
    <${Facts} items=${[
  [t("runs.job"), html`<${JobLink} run=${run} />`],
  [t("filter.group"), html`<bdi>${run.app_name}</bdi>`],
  [t("runs.due"), html`<${Time} ms=${run.due_ms} />`],
  [t("runs.planned"), run.planned_ms === run.due_ms ? null : html`<${Time} ms=${run.planned_ms} />`],
  [t("runs.started"), run.began_ms === null ? null : html`<${Time} ms=${run.began_ms} />`],
  [t("runs.finished"), run.finished_ms === null ? null : html`<${Time} ms=${run.finished_ms} />`],
  [t("runs.took"), runMs(run) === null ? null : duration(runMs(run))],
  [t("runs.address"), run.address && html`<a href=${link("/runs", {address: run.address})}>${run.address}</a>`],
  [t("runs.trigger"), t(`origin.${run.origin}`)],
  [t("runs.part"), partOf(run)],
  [t("runs.left"), run.retries_left > 0 ? String(run.retries_left) : null],
  [t("runs.code"), run.result_code === null ? null : String(run.result_code)],
  [t("runs.instance"), run.instance && html`<code>${run.instance}</code>`],
]} />
    <h2>${t("runs.param")}</h2><p>${param}</p>
    ${run.message && html`<h2>${t(run.state === "succeeded" ? "runs.result" : "runs.message")}</h2><pre class="value" tabindex="0" data-value="message">${visible(run.message, {lines: true})}</pre><p><${Copy} text=${run.message} /></p>`}
    ${related.data && html`<${Related} run=${run} items=${related.data} />`}
  </div>`;
}

function Head({run, reload}) {
  const step = (find, words) => async () => {
    const found = await find(run);
    if (found) go(`/runs/${found.id}`);
    else note(t(words), {tone: "good"});
  };
  const before = step(runBefore, "runs.noBefore"), after = step(runAfter, "runs.noAfter");
  useKeys({"[": () => { before(); }, "]": () => { after(); }, r: () => (mayRerun(run) ? (rerun(run), true) : false)});
  const compare = async () => {
    const other = await runBefore(run);
    if (other) go(`/runs/compare/${other.id}/${run.id}`);
    else note(t("runs.noBefore"));
  };
  const actions = added.value.runActions.filter((item) => (!item.permission || may(item.permission, run.group_id)) && (item.shows?.(run) ?? true));
  return html`<span data-run-state=${run.state}><${Outcome} run=${run} nowMs=${now.value} /></span>
    <span class="actions">
      <${Act} class="small secondary" aria-label=${t("keys.previousRun")} title="[" run=${before}>←<//>
      <${Act} class="small secondary" aria-label=${t("keys.nextRun")} title="]" run=${after}>→<//>
      ${mayRerun(run) && html`<${Act} class="small" run=${() => rerun(run)}>${t("action.rerun")}<//>`}
      ${mayKill(run) && html`<${Act} class="small danger" run=${async () => { await killRun(run); reload(); }}>${t("action.kill")}<//>`}
      <${Menu} label=${t("runs.menu", {id: String(run.id)})} items=${[
  {label: t("runs.ofJob"), href: link("/runs", {job: run.job_id})}, {label: t("runs.compareBefore"), run: compare},
  ...actions.map((item) => ({label: t(`${item.plugin}.${item.label}`), run: () => item.run(run)})),
]} />
    </span>`;
}

function Body({run, reload}) {
  const inChain = (event) => event.kind === "run" && (event.id === null || event.id === run.id || event.chain_id === run.chain_id);
  const related = useLoad((abort) => get("runs", {chain_id: run.chain_id, limit: MOST_RELATED}, {abort}).then((page) => page.items), [run.chain_id], {when: inChain});
  const isAlive = isOpen(run);
  useEffect(() => {
    if (!isAlive) return undefined;
    // events tell it sooner; this is for when they are away
    const timer = setInterval(() => { if (!document.hidden) reload(); }, OFTEN_MS);
    return () => clearInterval(timer);
  }, [isAlive, run.id]);
  return html`<div class="run-page"><${Details} run=${run} related=${related} /><${Log} run=${run} isAlive=${isAlive} onEnd=${reload} /></div>`;
}

export default function RunPage({id}) {
  const of = useLoad((abort) => get(`runs/${encodeURIComponent(id)}`, {}, {abort}), [id], {when: (event) => event.kind === "run" && (event.id === null || event.id === Number(id)), everyMs: 500});
  const run = of.data?.id === Number(id) ? of.data : null;
  return html`<div class="page-head"><h1 tabindex="-1">${t("runs.title", {id: String(id)})}</h1>${run && html`<${Head} key=${run.id} run=${run} reload=${of.reload} />`}</div>
    ${run ? html`<${Body} key=${run.id} run=${run} reload=${of.reload} />` : html`<${Panel} of=${{...of, data: null}} />`}`;
}
