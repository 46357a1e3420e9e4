// All cells: how each fares and what it has, a search over all, and the lists of their jobs and runs.
import {html} from "../../vendor/core.js";
import {get} from "../../api.js";
import {number, t} from "../../i18n.js";
import {link} from "../../router.js";
import {may, useLoad} from "../../store.js";
import {useEvery} from "../../components/every.js";
import {Choice, Filters, Search, Table} from "../../components/list.js";
import {Badge, Panel, Tabs, Time} from "../../components/ui.js";
import {Link, Missing, State, useCellPages, w} from "./parts.js";

const EVERY_MS = 5000, MOST_QUESTION = 128;
const BAD = ["failed", "timed_out", "lost"], STATES = ["running", "dispatching", ...BAD, "planned", "succeeded", "killed", "cancelled", "refused", "skipped"];
const RUNNING_OR_BAD = ["running", "dispatching", ...BAD].join(",");

const failedOf = (counts) => BAD.reduce((sum, name) => sum + counts.last_day[name], 0);
const Count = ({of}) => (of === null || of === undefined ? html`<span class="faint">–</span>` : html`<span class="number">${number(of)}</span>`);

function Row({cell, counts}) {
  const failed = counts ? failedOf(counts) : null;
  return html`<tr data-cell=${cell.name} data-state=${cell.reachable ? "up" : "away"}>
    <td data-label=${w("cell")}><strong><bdi>${cell.name}</bdi></strong>${cell.is_here ? html`<span class="under">${w("here")}</span>` : html`<span class="under"><${Link} cell=${cell} place="/">${w("console")}<//></span>`}</td>
    <td data-label=${w("state")}><${Badge} state=${cell.reachable ? "up" : "away"} words=${cell.reachable ? w("answers") : w(`code.${cell.code}`)} />${cell.reason && html`<span class="under" data-reason>${cell.reason}</span>`}</td>
    <td data-label=${w("open")} data-count="open"><${Count} of=${counts?.open_runs} /></td>
    <td data-label=${w("failed")} data-count="failed">${failed ? html`<span class="badge bad">${number(failed)}</span>` : html`<${Count} of=${failed} />`}</td>
    <td data-label=${w("executors")} data-count="executors"><${Count} of=${counts?.executors} /></td>
    <td data-label=${w("nodes")} data-count="nodes"><${Count} of=${cell.nodes} /></td>
    <td data-label=${w("version")}><bdi>${cell.version ?? "–"}</bdi></td>
    <td data-label=${w("seen")}><${Time} ms=${cell.answered_ms} relative /></td></tr>`;
}

function Overview({cells}) {
  const load = useLoad((abort) => get("cells/overview", {}, {abort}), []);
  useEvery(load.reload, EVERY_MS);
  const of = new Map((load.data?.items ?? []).map((one) => [one.cell, one.counts])), sum = load.data?.sum;
  // what answers, but not this question, has a reason of its own
  const lacking = (load.data?.missing ?? []).filter((one) => cells.find((cell) => cell.name === one.cell)?.reachable);
  return html`<${Panel} of=${load} label=${w("cells")}>
    <${Missing} of=${lacking} />
    <div class="table-frame"><table class="list" data-list="cells" aria-label=${w("cells")}><thead><tr>
      ${["cell", "state", "open", "failed", "executors", "nodes", "version", "seen"].map((key) => html`<th scope="col">${w(key)}</th>`)}</tr></thead>
      <tbody>${cells.map((cell) => html`<${Row} key=${cell.name} cell=${cell} counts=${of.get(cell.name)} />`)}</tbody>
      ${sum && html`<tfoot><tr data-sum><th scope="row">${w("sum")}</th><td></td><td data-label=${w("open")}>${number(sum.open_runs)}</td><td data-label=${w("failed")}>${number(failedOf(sum))}</td><td data-label=${w("executors")}>${number(sum.executors)}</td>
        <td data-label=${w("nodes")}>${number(cells.reduce((found, cell) => found + (cell.nodes ?? 0), 0))}</td><td></td><td></td></tr></tfoot>`}
    </table></div><//>`;
}

const SHOWN = {
  jobs: (row) => [`/jobs/${row.id}`, row.name, row.handler], groups: (row) => ["/executors", row.title || row.app_name, row.app_name], executors: (row) => ["/executors", row.address, ""],
};
function Found({text, cells}) {
  const load = useLoad((abort) => get("cells/search", {q: text}, {abort}), [text]);
  const kinds = Object.keys(SHOWN).filter((kind) => load.data?.[kind].length);
  const cellOf = (row) => cells.find((cell) => cell.name === row.cell);
  return html`<section aria-label=${w("searched", {text})} data-found><h2>${w("searched", {text})}</h2>
    <${Panel} of=${load} isEmpty=${!kinds.length && !load.data?.missing.length} empty=${w("none")}>
      <${Missing} of=${load.data?.missing} />
      ${kinds.map((kind) => html`<h3>${w(kind)}</h3><ul data-kind=${kind}>${load.data[kind].map((row) => {
    const [place, name, more] = SHOWN[kind](row);
    return html`<li key=${`${row.cell}/${row.id}`}><${Link} cell=${cellOf(row)} place=${place}><bdi>${name}</bdi><//> <span class="faint"><bdi>${row.cell}</bdi>${more && html`, <bdi>${more}</bdi>`}</span></li>`;
  })}</ul>`)}
      ${load.data?.is_cut && html`<p class="faint">${w("cut")}</p>`}<//></section>`;
}

const cellColumn = (cells) => ({key: "cell", label: w("cell"), className: "tight", csv: (row) => row.cell, cell: (row) => html`<bdi>${row.cell}</bdi>`, of: (row) => cells.find((cell) => cell.name === row.cell)});
const CellChoice = ({cells}) => html`<${Choice} name="cell" label=${w("cell")} options=${cells.map((cell) => [cell.name, cell.name])} />`;
const chosen = (query, cells) => (cells.some((cell) => cell.name === query.cell) ? query.cell : undefined);

function Jobs({query, cells}) {
  const pages = useCellPages("cells/jobs", {cell: chosen(query, cells), search: query.search?.trim().slice(0, MOST_QUESTION)});
  const cell = cellColumn(cells);
  const columns = [cell,
    {key: "job", label: w("job"), className: "clip-name", csv: (job) => job.name, cell: (job) => html`<${Link} cell=${cell.of(job)} place=${`/jobs/${job.id}`}><bdi>${job.name}</bdi><//>`},
    {key: "handler", label: w("handler"), csv: (job) => job.handler, cell: (job) => html`<bdi>${job.handler || job.glue_type}</bdi>`},
    {key: "state", label: w("state"), csv: (job) => job.state, cell: (job) => html`<${State} of=${job.state} />`},
    {key: "schedule", label: w("schedule"), csv: (job) => job.schedule_conf, cell: (job) => html`<code>${job.schedule_conf}</code>`},
    {key: "next", label: w("next"), className: "tight", csv: (job) => job.next_fire_ms, cell: (job) => html`<${Time} ms=${job.next_fire_ms} />`}];
  return html`<${Filters} names=${["cell", "search"]}><${Search} name="search" label=${w("jobName")} maxlength=${MOST_QUESTION} /><${CellChoice} cells=${cells} /><//>
    <${Missing} of=${pages.load.data?.missing} />
    <${Table} name="cell-jobs" label=${w("jobs")} pages=${pages} columns=${columns} idOf=${(row) => row.key} empty=${w("noJobs")} />`;
}

function Runs({query, cells}) {
  const state = (query.state ?? "").split(",").filter((one) => STATES.includes(one));
  const pages = useCellPages("cells/runs", {cell: chosen(query, cells), state});
  useEvery(() => { if (pages.items.length <= 50) pages.load.reload(); }, EVERY_MS);
  const cell = cellColumn(cells);
  const columns = [cell,
    {key: "run", label: w("run"), className: "tight", csv: (run) => run.id, cell: (run) => html`<${Link} cell=${cell.of(run)} place=${`/runs/${run.id}`}>#${run.id}<//>`},
    {key: "job", label: w("job"), className: "clip-name", csv: (run) => run.job_name, cell: (run) => html`<${Link} cell=${cell.of(run)} place=${`/jobs/${run.job_id}`}><bdi>${run.job_name}</bdi><//><span class="under"><bdi>${run.app_name}</bdi></span>`},
    {key: "due", label: w("due"), className: "tight", csv: (run) => new Date(run.due_ms).toISOString(), cell: (run) => html`<${Time} ms=${run.due_ms} />`},
    {key: "state", label: w("state"), csv: (run) => run.state, cell: (run) => html`<${State} of=${run.state} />`},
    {key: "message", label: w("message"), className: "clip", csv: (run) => run.message, cell: (run) => html`<bdi>${run.message.slice(0, 600)}</bdi>`}];
  return html`<${Filters} names=${["cell", "state"]}><${Choice} name="state" label=${w("state")} options=${[[RUNNING_OR_BAD, w("allOpenOrFailed")], ...STATES.map((one) => [one, t(`state.${one}`)])]} /><${CellChoice} cells=${cells} /><//>
    <${Missing} of=${pages.load.data?.missing} />
    <${Table} name="cell-runs" label=${w("runs")} pages=${pages} columns=${columns} idOf=${(row) => row.key} empty=${w("noRuns")} />`;
}

const TABS = {cells: Overview, jobs: Jobs, runs: Runs};
const LINKS = {cells: link("/cells"), jobs: link("/cells/jobs"), runs: link("/cells/runs", {state: RUNNING_OR_BAD})};

export default function Cells({tab, query}) {
  const mayRead = may("read", null), current = tab in TABS ? tab : "cells";
  const load = useLoad((abort) => (mayRead ? get("cells", {}, {abort}) : Promise.resolve({items: []})), [mayRead]);
  useEvery(() => { if (mayRead) load.reload(); }, EVERY_MS);
  const text = (query.q ?? "").trim().slice(0, MOST_QUESTION), cells = load.data?.items ?? [], View = TABS[current];
  return html`<div class="page-head"><h1 tabindex="-1">${w("title")}</h1></div>
    ${!mayRead ? html`<p class="empty">${w("needAll")}</p>` : html`
    <${Tabs} label=${w("title")} current=${current} items=${Object.keys(TABS).map((name) => [name, w(name), LINKS[name]])} />
    <${Panel} of=${load} label=${w("title")}>
      ${current === "cells" && html`<${Filters} names=${["q"]}><${Search} label=${w("search")} maxlength=${MOST_QUESTION} /><//>`}
      ${current === "cells" && text && html`<${Found} text=${text} cells=${cells} />`}
      <${View} key=${current} query=${query} cells=${cells} /><//>`}`;
}
