// What people do with jobs and runs, wherever a page offers it: one dialog, one call, one note each.
import {html, useRef} from "./vendor/core.js";
import {get, newKey, post, del} from "./api.js";
import {ago, dateTime, number, t, zoneShown} from "./i18n.js";
import {go} from "./router.js";
import {fromLocal, toLocal} from "./zones.js";
import {act, confirmed, openDialog} from "./components/dialog.js";
import {Field, useForm} from "./components/fields.js";
import {DialogForm} from "./components/forms.js";
import {Panel} from "./components/ui.js";
import {showBatch} from "./components/list.js";
import {now, useLoad} from "./store.js";

/** Run a job now; with `asks`, with another parameter, on executors of choice, or later. */
export async function runJob(job, {asks = false} = {}) {
  if (!asks) return act(() => post(`jobs/${job.id}/run`, {}, {key: newKey()}), {done: t("run.planned", {name: job.name}), href: (run) => `#/runs/${run.id}`});
  return openDialog((close) => html`<${RunForm} job=${job} close=${close} />`, {label: t("run.title", {name: job.name})});
}

const AHEAD_MS = 3_600_000;

function RunForm({job, close}) {
  const of = useForm({param: job.param ?? "", addresses: [], when: "now", at: null}), sent = useRef({});
  const executors = useLoad((abort) => get(`groups/${job.group_id}/executors`, {}, {abort}), [job.id]);
  const {addresses, when, at} = of.values.value;
  const run = (values) => {
    const body = {param: values.param, ...(values.addresses.length ? {addresses: values.addresses} : {}), ...(values.when === "at" ? {at: new Date(values.at).toISOString()} : {})};
    const text = JSON.stringify(body);
    // what was asked for once is not done twice; what was changed since is another wish
    if (sent.current.text !== text) sent.current = {text, key: newKey()};
    return post(`jobs/${job.id}/run`, body, {key: sent.current.key});
  };
  const done = (made) => (when === "at" ? t("run.plannedAt", {name: job.name, time: dateTime(made.due_ms)}) : t("run.planned", {name: job.name}));
  const pick = (next) => of.set({when: next, at: next === "at" ? at ?? Math.ceil((now.peek() + AHEAD_MS) / 60_000) * 60_000 : at});
  const toggle = (address) => of.set({addresses: addresses.includes(address) ? addresses.filter((one) => one !== address) : [...addresses, address]});
  return html`<${DialogForm} of=${of} close=${close} save=${run} done=${done} href=${(made) => `#/runs/${made.id}`} action=${t("action.run")} isReady=${when === "now" || at !== null} labels=${{param: t("job.param"), at: t("run.at"), addresses: t("run.where")}}>
    <${Field} of=${of} name="param" kind="textarea" label=${t("job.param")} autofocus />
    <${Field} of=${of} name="when" kind="select" label=${t("run.when")} options=${[["now", t("run.now")], ["at", t("run.later")]]} onChange=${pick} />
    ${when === "at" && html`<div class="field" data-field="at"><label>${t("run.at")}<input type="datetime-local" name="at" required value=${toLocal(at)} onChange=${(event) => of.set({at: fromLocal(event.target.value)})} /></label>
      <small>${t("form.inZone", {zone: zoneShown()})}${at !== null && html` · ${ago(at, now.value)}`}</small>${of.errors.value.at && html`<small class="field-error">${of.errors.value.at}</small>`}</div>`}
    <fieldset data-field="addresses"><legend>${t("run.where")}</legend><${Panel} of=${executors} isEmpty=${!executors.data?.items.length} empty=${t("run.noExecutors")}>
      ${executors.data?.items.map((item) => html`<label class="inline"><input type="checkbox" checked=${addresses.includes(item.address)} onChange=${() => toggle(item.address)} /> ${item.address}</label>`)}<//></fieldset><//>`;
}

export const startJob = (job) => act(() => post(`jobs/${job.id}/start`, {}), {done: t("job.started", {name: job.name})});

export async function stopJob(job) {
  const said = await confirmed({title: t("job.stopTitle", {name: job.name}), body: html`<p>${t("job.stopBody")}</p>`, action: t("action.stop"), asksReason: true});
  return said && act(() => post(`jobs/${job.id}/stop`, {}, said), {done: t("job.stopped", {name: job.name})});
}

export async function copyJob(job) {
  const {value} = await act(() => post(`jobs/${job.id}/copy`, {}), {done: t("job.copied", {name: job.name}), href: (made) => `#/jobs/${made.id}`});
  if (value) go(`/jobs/${value.id}/edit`);
}

export async function deleteJob(job) {
  const said = await confirmed({title: t("job.deleteTitle", {name: job.name}), body: html`<p>${t("job.deleteBody")}</p>`, action: t("action.delete"), isDangerous: true, asksReason: true, typed: job.name});
  return said && act(() => del(`jobs/${job.id}`, said), {done: t("job.deleted", {name: job.name})});
}

export async function killRun(run) {
  const said = await confirmed({title: t("run.killTitle", {id: run.id, name: run.job_name}), body: html`<p>${t("run.killBody")}</p>`, action: t("action.kill"), isDangerous: true, asksReason: true});
  return said && act(() => post(`runs/${run.id}/kill`, {}, said), {done: t("run.killed", {id: run.id})});
}

export const rerun = (run) => act(() => post(`runs/${run.id}/rerun`, {}, {key: newKey()}), {done: t("run.planned", {name: run.job_name}), href: (made) => `#/runs/${made.id}`});

/** Do something to many jobs; a line for each that could not. `action`: start, stop, run, delete. */
export async function batchJobs(action, jobs, clear) {
  const said = await confirmed({
    title: t(`batch.${action}`, {count: jobs.length}), action: t(`action.${action}`), isDangerous: action === "delete" || action === "stop", asksReason: action !== "run",
    typed: action === "delete" ? number(jobs.length) : null,
    body: html`<ul class="batch-names">${jobs.slice(0, 12).map((job) => html`<li>${job.name}</li>`)}${jobs.length > 12 && html`<li>${t("batch.more", {count: jobs.length - 12})}</li>`}</ul>`,
  });
  if (!said) return;
  const {value} = await act(() => post(`jobs/bulk/${action}`, {ids: jobs.map((job) => job.id)}, {...said, key: newKey()}));
  if (!value) return;
  const names = new Map(jobs.map((job) => [job.id, job.name]));
  await showBatch(t(`batch.${action}`, {count: jobs.length}), value.items.map((item) => ({id: item.id, error: item.problem?.detail ?? null})), (item) => names.get(item.id) ?? item.id);
  clear?.();
}

/** Do something to many runs, one call after another, with what became of each. */
export async function batchRuns(action, runs, clear) {
  const said = await confirmed({title: t(`batch.${action}Runs`, {count: runs.length}), action: t(`action.${action}`), isDangerous: action === "kill", asksReason: true});
  if (!said) return;
  const results = [];
  for (const run of runs) {
    const {error} = await act(() => post(`runs/${run.id}/${action}`, {}, {...said, key: newKey()}), {quiet: true});
    results.push({id: run.id, error: error?.message ?? null});
  }
  await showBatch(t(`batch.${action}Runs`, {count: runs.length}), results, (item) => `#${item.id}`);
  clear?.();
}
