// The runs of one job; the page of all runs has more filters.
import {html} from "../../vendor/core.js";
import {dateTime, t} from "../../i18n.js";
import {may} from "../../store.js";
import {killRun, rerun} from "../../actions.js";
import {Menu} from "../../components/dialog.js";
import {Choice, Filters, Table, usePages} from "../../components/list.js";
import {Duration, RunBadge, Time, isOpen, runMs} from "../../components/ui.js";
import {reasonWords} from "./words.js";

const STATES = ["planned", "dispatching", "running", "succeeded", "failed", "timed_out", "lost", "killed", "cancelled", "refused", "skipped"];

export function RunsOfJob({job, query}) {
  const pages = usePages("runs", {job_id: job.id, state: query.state}, {when: (event) => event.kind === "run" && event.job_id === job.id});
  const mayRun = may("run", job.group_id), {reload} = pages.load;
  const columns = [
    {key: "id", label: t("job.col.run"), className: "tight", csv: (run) => run.id, cell: (run) => html`<a href="#/runs/${run.id}">${run.id}</a>`},
    {key: "state", label: t("job.col.state"), className: "tight", csv: (run) => t(`state.${run.state}`), cell: (run) => html`<${RunBadge} run=${run} />`},
    {key: "due", label: t("job.col.due"), className: "tight", csv: (run) => dateTime(run.due_ms), cell: (run) => html`<${Time} ms=${run.due_ms} />`},
    {key: "took", label: t("job.col.took"), className: "tight", csv: (run) => runMs(run), cell: (run) => html`<${Duration} ms=${runMs(run)} />`},
    {key: "origin", label: t("job.col.origin"), optional: "on", csv: (run) => run.origin, cell: (run) => t(`job.origin.${run.origin}`)},
    {key: "attempt", label: t("job.col.attempt"), optional: "on", className: "tight", csv: (run) => run.attempt, cell: (run) => run.attempt},
    {key: "address", label: t("job.col.address"), optional: "on", csv: (run) => run.address, cell: (run) => run.address ?? "–"},
    {key: "message", label: t("job.col.message"), className: "clip", csv: (run) => run.message, cell: (run) => html`<span>${[run.reason && reasonWords(run.reason), run.message].filter(Boolean).join(": ")}</span>`},
    {key: "actions", label: t("jobs.actions"), className: "tight", cell: (run) => html`<${Menu} label=${t("job.runMenuOf", {id: run.id})} items=${[
      {label: t("action.log"), href: `#/runs/${run.id}`},
      mayRun && !isOpen(run) && {label: t("action.rerun"), run: async () => { await rerun(run); reload(); }},
      mayRun && isOpen(run) && {label: t("action.kill"), isDangerous: true, run: async () => { await killRun(run); reload(); }},
    ]} />`},
  ];
  return html`<${Filters} names=${["state"]}><${Choice} name="state" label=${t("filter.state")} options=${STATES.map((state) => [state, t(`state.${state}`)])} />
      <a href="#/runs?job=${job.id}">${t("job.allRuns")}</a><//>
    <${Table} name="job-runs" label=${t("job.tab.runs")} pages=${pages} columns=${columns} rowHref=${(run) => `#/runs/${run.id}`} rowKeys=${{l: (run) => { location.hash = `#/runs/${run.id}`; }}} empty=${t("job.noRuns")} />`;
}
