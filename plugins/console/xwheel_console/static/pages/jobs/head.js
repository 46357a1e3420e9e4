// What all pages of a job have at the top, and what can be done with a job.
import {html, plain, useEffect} from "../../vendor/core.js";
import {get, post} from "../../api.js";
import {t} from "../../i18n.js";
import {go} from "../../router.js";
import {may} from "../../store.js";
import {copyJob, deleteJob, runJob, startJob, stopJob} from "../../actions.js";
import {Act, Menu, act, confirmed, openDialog} from "../../components/dialog.js";
import {Badge, Tabs} from "../../components/ui.js";
import {Fires} from "./schedule.js";

/** Whether a job's glue type takes a source. */
export const isScript = (job) => job.glue_type !== "BEAN" && (job.glue_type.startsWith("GLUE_") || job.glue_version > 0);

/** The log of the newest run, or the list of runs where there is none. */
export async function openLog(job) {
  const {value} = await act(() => get("runs", {job_id: job.id, limit: 1}));
  if (value) value.items.length ? go(`/runs/${value.items[0].id}`) : go("/runs", {job: job.id});
}

/** Start or stop a job; tells `done` when it was. */
export async function switchJob(job, done) {
  const answer = await (job.enabled ? stopJob(job) : startJob(job));
  if (answer) done?.();
}

/** The state of a job, which is a switch for those who may. */
export function StateSwitch({job, done}) {
  if (!may("run", job.group_id)) return html`<${Badge} state=${job.state} />`;
  return html`<${Act} run=${() => switchJob(job, done)} class="state-switch" role="switch" aria-checked=${job.enabled ? "true" : "false"} aria-label=${t("jobs.switch", {name: job.name})} data-action="switch">
    <span class="track" aria-hidden="true"></span><${Badge} state=${job.state} /><//>`;
}

const added = (job) => (globalThis.xwheel?.added.value.jobActions ?? []).filter((item) => (!item.permission || may(item.permission, job.group_id)) && (item.shows?.(job) ?? true))
  .map((item) => ({label: t(`${item.plugin}.${item.label}`), run: () => item.run(job)}));

/** What else can be done with a job, as items of a menu. */
export function jobActions(job, done) {
  const edits = may("edit", job.group_id);
  const then = (work) => async () => { const answer = await work(); if (answer && !answer.error) done?.(); };
  return [
    may("run", job.group_id) && {label: t("action.runWith"), run: () => runJob(job, {asks: true})},
    {label: t("jobs.runsOf"), href: `#/runs?job=${job.id}`},
    job.schedule_type !== "NONE" && {label: t("fires.title"), run: () => openDialog(() => html`<${Fires} job=${job} />`, {label: t("fires.of", {name: job.name})})},
    edits && {label: t("action.edit"), href: `#/jobs/${job.id}/edit`},
    isScript(job) && {label: t("nav.jobCode"), href: `#/jobs/${job.id}/code`},
    {label: t("job.tab.history"), href: `#/jobs/${job.id}/history`},
    edits && {label: t("action.copyJob"), run: () => copyJob(job)},
    ...added(job),
    edits && {label: t("action.delete"), isDangerous: true, run: then(() => deleteJob(job))},
  ];
}

/** Name, state, actions and tabs of a job; `of` is what useLoad gave. */
export function JobHead({of, id, tab}) {
  const job = of.data;
  useEffect(() => { if (job) queueMicrotask(() => { document.title = `${plain(job.name)} · xwheel`; }); });
  const tabs = job ? [["overview", `#/jobs/${id}`], ["runs", `#/jobs/${id}/runs`], ["children", `#/jobs/${id}/children`], isScript(job) && ["code", `#/jobs/${id}/code`], ["history", `#/jobs/${id}/history`],
    may("admin", job.group_id) && ["operations", `#/jobs/${id}/operations`]].filter(Boolean) : [];
  return html`<div class="page-head"><h1 tabindex="-1">${job ? html`<bdi>${job.name}</bdi>` : t("nav.job")}</h1>
    ${job && html`<${StateSwitch} job=${job} done=${of.reload} />
    <div class="actions">
      ${may("run", job.group_id) && html`<${Act} run=${async () => { await runJob(job); of.reload(); }} data-action="run">${t("action.run")}<//>
        <${Menu} small=${false} label=${t("job.runMenu")} items=${[{label: t("action.runWith"), run: () => runJob(job, {asks: true})}]}>▾<//>`}
      ${may("edit", job.group_id) && html`<a role="button" class="secondary" href="#/jobs/${id}/edit" data-action="edit">${t("action.edit")}</a>`}
      <button type="button" class="secondary" data-action="log" onClick=${() => openLog(job)}>${t("action.log")}</button>
      <${Menu} small=${false} label=${t("action.menu")} items=${jobActions(job, () => go("/jobs"))} />
    </div>`}</div>
    ${job && html`<${Tabs} label=${t("job.tabs")} current=${tab} items=${tabs.map(([key, href]) => [key, t(`job.tab.${key}`), href])} />`}
    ${job?.schedule_error && html`<div class="failure" role="alert"><p><strong>${t("job.scheduleError")}</strong></p><p>${job.schedule_error}</p></div>`}
    ${job?.declared && html`<${Declared} job=${job} done=${of.reload} />`}`;
}

/** What code decides about a job; people may take that over, and give it back. */
function Declared({job, done}) {
  const {place, release, owned, is_released: isReleased, is_retired: isRetired, problem} = job.declared;
  const change = async () => {
    const key = isReleased ? "job.giveBack" : "job.takeOver";
    const said = await confirmed({title: t(`${key}Title`, {name: job.name}), body: html`<p>${t(`${key}Body`)}</p>`, action: t(key), asksReason: true});
    if (said && (await act(() => post(`jobs/${job.id}/release`, {undo: isReleased, revision: job.revision}, said), {done: t("form.saved", {name: job.name})})).value) done();
  };
  return html`<p class="faint" data-declared>${isRetired ? t("job.retired", {place}) : isReleased ? t("job.released", {place}) : t("job.declared", {place, release, count: owned.length})}${problem && html` <strong class="field-error">${problem}</strong>`}${!isRetired && may("edit", job.group_id) && html` <${Act} class="link small" data-action="release" run=${change}>${t(isReleased ? "job.giveBack" : "job.takeOver")}<//>`}</p>`;
}
