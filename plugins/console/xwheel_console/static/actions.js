// What people do with jobs and runs, wherever a page offers it: one dialog, one call, one note each.
import {html} from "./vendor/core.js";
import {newKey, post, del} from "./api.js";
import {number, t} from "./i18n.js";
import {go} from "./router.js";
import {act, confirmed, openDialog} from "./components/dialog.js";
import {showBatch} from "./components/list.js";
import {later} from "./later.js";

/** Run a job now; with `asks`, with another parameter, on executors of choice, or later. */
export async function runJob(job, {asks = false} = {}) {
  if (!asks) return act(() => post(`jobs/${job.id}/run`, {}, {key: newKey()}), {done: t("run.planned", {name: job.name}), href: (run) => `#/runs/${run.id}`});
  const RunForm = await later.runForm();
  return RunForm && openDialog((close) => html`<${RunForm} job=${job} close=${close} />`, {label: t("run.title", {name: job.name})});
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
