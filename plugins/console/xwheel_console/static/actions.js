// What people do with jobs and runs, wherever a page offers it: one dialog, one call, one note each.
import {html, useSignal} from "./vendor/core.js";
import {get, newKey, post, del} from "./api.js";
import {number, t} from "./i18n.js";
import {go} from "./router.js";
import {act, confirmed, openDialog} from "./components/dialog.js";
import {Panel} from "./components/ui.js";
import {showBatch} from "./components/list.js";
import {useLoad} from "./store.js";

/** Run a job now; with `asks`, with another parameter or on executors of choice. */
export async function runJob(job, {asks = false} = {}) {
  const key = newKey();
  if (!asks) return act(() => post(`jobs/${job.id}/run`, {}, {key}), {done: t("run.planned", {name: job.name}), href: (run) => `#/runs/${run.id}`});
  return openDialog((close) => html`<${RunForm} job=${job} close=${close} runKey=${key} />`, {label: t("run.title", {name: job.name})});
}

function RunForm({job, close, runKey}) {
  const param = useSignal(job.param ?? ""), chosen = useSignal([]);
  const executors = useLoad((abort) => get(`groups/${job.group_id}/executors`, {}, {abort}), [job.id]);
  const submit = async (event) => {
    event.preventDefault();
    const body = {param: param.value, ...(chosen.value.length ? {addresses: chosen.value} : {})};
    const {value} = await act(() => post(`jobs/${job.id}/run`, body, {key: runKey}), {done: t("run.planned", {name: job.name}), href: (run) => `#/runs/${run.id}`});
    if (value) close(value);
  };
  const toggle = (address) => { chosen.value = chosen.value.includes(address) ? chosen.value.filter((one) => one !== address) : [...chosen.value, address]; };
  return html`<form onSubmit=${submit}>
    <label>${t("job.param")}<textarea name="param" autofocus value=${param.value} onInput=${(event) => { param.value = event.target.value; }}></textarea></label>
    <fieldset><legend>${t("run.where")}</legend><${Panel} of=${executors} isEmpty=${!executors.data?.items.length} empty=${t("run.noExecutors")}>
      ${executors.data?.items.map((item) => html`<label class="inline"><input type="checkbox" checked=${chosen.value.includes(item.address)} onChange=${() => toggle(item.address)} /> ${item.address}</label>`)}<//></fieldset>
    <footer><button type="button" class="secondary" onClick=${() => close()}>${t("action.cancel")}</button><button type="submit">${t("action.run")}</button></footer></form>`;
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
