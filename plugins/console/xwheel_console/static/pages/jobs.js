// P3: all jobs, with what one wants to know at a glance and what one does most.
import {html} from "../vendor/core.js";
import {ApiError, get, getAll, url} from "../api.js";
import {byName, dateTime, t} from "../i18n.js";
import {go} from "../router.js";
import {may, useLoad} from "../store.js";
import {batchJobs, runJob} from "../actions.js";
import {Act, Menu} from "../components/dialog.js";
import {Choice, Filters, Search, Table, usePages} from "../components/list.js";
import {Panel, Spark, Time} from "../components/ui.js";
import {StateSwitch, jobActions, openLog, switchJob} from "./jobs/head.js";
import {ScheduleWords, typeWords} from "./jobs/schedule.js";

export const TYPES = ["CRON", "UNIX_CRON", "FIX_RATE", "FIX_DELAY", "DAILY_INTERVAL", "ONCE", "NONE"];
const NAMES = ["q", "group", "state", "type", "handler"];
const LIVE = new Set(["job", "run", "group", "pause", "calendar"]);
const MOST_RECENT = 100;
let canSayRecent = true;

/** The last runs of jobs by their ids; null where the node cannot say. */
async function recentRuns(ids, abort) {
  const found = new Map();
  // rows without them are painted first
  await new Promise((done) => setTimeout(done, 30));
  abort.throwIfAborted();
  for (let from = 0; canSayRecent && from < ids.length; from += MOST_RECENT) {
    try {
      const {items} = await get("jobs/recent", {job_id: ids.slice(from, from + MOST_RECENT)}, {abort});
      for (const item of items) found.set(item.job_id, item.runs);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      canSayRecent = false;
    }
  }
  return found;
}

const groupName = (groups, id) => { const group = groups.find((one) => one.id === id); return group ? group.title || group.app_name : `#${id}`; };

function columnsOf({groups, recent, reload}) {
  return [
    {key: "id", label: "ID", className: "tight number wide-only", optional: "on", cell: (job) => job.id, csv: (job) => job.id},
    {key: "name", label: t("field.name"), csv: (job) => job.name, className: "clip-name", cell: (job) => html`<a href="#/jobs/${job.id}"><bdi>${job.name}</bdi></a>${job.description && html`<span class="under clip-line"><bdi>${job.description}</bdi></span>`}`},
    {key: "group", label: t("filter.group"), className: "wide-only", optional: "on", csv: (job) => groupName(groups, job.group_id), cell: (job) => html`<bdi>${groupName(groups, job.group_id)}</bdi>`},
    {key: "type", label: t("field.glue_type"), optional: "on", csv: (job) => `${job.glue_type} ${job.handler}`, cell: (job) => html`<span class="number">${job.glue_type}</span>${job.handler && html`<code class="under one-line" title=${job.handler}>${job.handler}</code>`}`},
    {key: "schedule", label: t("jobs.schedule"), csv: (job) => `${job.schedule_type} ${job.schedule_conf}`, cell: (job) => html`<${ScheduleWords} job=${job} />`},
    {key: "state", label: t("filter.state"), className: "tight", csv: (job) => t(`state.${job.state}`), cell: (job) => html`<${StateSwitch} job=${job} done=${reload} />`},
    {key: "next", label: t("jobs.next"), className: "tight", csv: (job) => (job.next_fire_ms ? dateTime(job.next_fire_ms) : ""), cell: (job) => html`<${Time} ms=${job.next_fire_ms} relative />`},
    {key: "recent", label: t("jobs.recent"), className: "tight", optional: "on", cell: (job) => html`<${Spark} runs=${recent?.get(job.id)} />`},
    {key: "actions", label: t("jobs.actions"), className: "tight", cell: (job) => html`<span class="row-actions">
      ${may("run", job.group_id) && html`<${Act} class="small" data-action="run" aria-label=${t("jobs.runOne", {name: job.name})} run=${() => runJob(job)}>${t("action.run")}<//>`}
      <button type="button" class="small secondary" data-action="log" aria-label=${t("jobs.logOne", {name: job.name})} onClick=${() => openLog(job)}>${t("action.log")}</button>
      <${Menu} label=${t("jobs.menuOne", {name: job.name})} items=${jobActions(job, reload)} /></span>`},
  ];
}

/** What can be done with many jobs: only what the caller may do with each of them. */
function Batch({jobs, clear, reload}) {
  const can = (permission) => jobs.every((job) => may(permission, job.group_id));
  const button = (action, permission, tone) => can(permission) && html`<${Act} class="small ${tone}" data-batch=${action} run=${async () => { await batchJobs(action, jobs, clear); reload(); }}>${t(`action.${action}`)}<//>`;
  return html`${button("start", "run", "secondary")}${button("stop", "run", "secondary")}${button("run", "run", "secondary")}${button("delete", "edit", "danger")}`;
}

/** What a new user does first; loaded where there is no job yet. */
function FirstSteps({query}) {
  const load = useLoad(() => import("./welcome.js"), []);
  return html`<${Panel} of=${load}>${load.data && html`<${load.data.Steps} query=${query} />`}<//>`;
}

export default function Jobs({query}) {
  const groups = useLoad((abort) => getAll("groups", {}, 5000, {abort}), [], {when: (event) => event.kind === "group"});
  const params = {search: query.q, group_id: query.group, handler: query.handler, schedule_type: query.type, enabled: {started: "true", stopped: "false"}[query.state]};
  const pages = usePages("jobs", params, {when: (event) => LIVE.has(event.kind), everyMs: 3000});
  const ids = pages.items.map((job) => job.id);
  const recent = useLoad((abort) => recentRuns(ids, abort), [ids.join()], {when: (event) => event.kind === "run", everyMs: 3000});
  const {reload} = pages.load;
  const known = groups.data ?? [];
  const isFiltered = NAMES.some((name) => query[name]);
  const mayRun = (run) => (job) => (may("run", job.group_id) ? run(job) : false);
  // the first steps stay when the first job is there, until its run was seen
  const isNew = query.job || (pages.load.data && !pages.items.length && !pages.hasMore && !isFiltered);
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.jobs")}</h1><div class="actions">
      <a role="button" class="secondary" href=${url("jobs/csv", params)} download="jobs.csv" data-action="csv">${t("jobs.csv")}</a>
      ${may("edit") && html`<a role="button" href="#/jobs/new" data-action="new">${t("nav.newJob")}</a>`}</div></div>
    ${isNew ? html`<${FirstSteps} query=${query} />` : html`
    <${Filters} names=${NAMES}>
      <${Search} label=${t("jobs.search")} />
      <${Choice} name="group" label=${t("filter.group")} options=${[...known].sort((one, other) => byName(one.app_name, other.app_name)).map((group) => [group.id, group.title || group.app_name])} />
      <${Choice} name="state" label=${t("filter.state")} options=${["started", "stopped"].map((state) => [state, t(`state.${state}`)])} />
      <${Choice} name="type" label=${t("field.schedule_type")} options=${TYPES.map((type) => [type, typeWords(type)])} />
      <${Search} name="handler" label=${t("field.handler")} />
    <//>
    <${Table} name="jobs" label=${t("nav.jobs")} pages=${pages} columns=${columnsOf({groups: known, recent: recent.data, reload})}
      rowHref=${(job) => `#/jobs/${job.id}`} batch=${may("run") ? (jobs, clear) => html`<${Batch} jobs=${jobs} clear=${clear} reload=${reload} />` : null}
      rowKeys=${{e: (job) => (may("edit", job.group_id) ? go(`/jobs/${job.id}/edit`) : false), r: mayRun(runJob), s: mayRun((job) => switchJob(job, reload)), l: openLog}}
      empty=${html`<p>${t("jobs.none")}</p>`} />`}`;
}
