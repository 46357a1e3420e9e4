// The versions of a job: who changed what and why, what differs, and the way back.
import {html} from "../../vendor/core.js";
import {get, post} from "../../api.js";
import {dateTime, has, t} from "../../i18n.js";
import {setQuery} from "../../router.js";
import {may, useLoad} from "../../store.js";
import {act, confirmed} from "../../components/dialog.js";
import {FieldDiff} from "../../components/diff.js";
import {Table, usePages} from "../../components/list.js";
import {Panel, Time} from "../../components/ui.js";
import {fieldLabel, fieldValue} from "./words.js";

const actionWords = (action) => (has(`version.action.${action}`) ? t(`version.action.${action}`) : action);

/** What differs between two versions: the fields, and the script as lines that went or came. */
export function Difference({jobId, revision, against}) {
  const load = useLoad((abort) => get(`jobs/${jobId}/versions/${revision}/diff`, {against}, {abort}), [jobId, revision, against]);
  const of = load.data;
  return html`<${Panel} of=${load}>${of && html`<div data-diff=${revision}>
    <h2>${of.against === null ? t("version.first", {revision: of.revision}) : t("version.diff", {one: of.against, other: of.revision})}</h2>
    ${of.fields.length > 0 ? html`<div class="table-frame"><${FieldDiff} items=${of.fields.map(({field, before, after}) => [fieldLabel(field), fieldValue(field, before), fieldValue(field, after)])} /></div>` : !of.source && html`<p class="empty">${t("version.same")}</p>`}
    ${of.source === null ? html`<p class="faint">${t("version.noSource")}</p>` : of.source && html`<pre class="diff" role="figure" aria-label=${t("version.sourceDiff")}>${of.source.split("\n").map((line) => html`<span class=${line.startsWith("+") ? "new" : line.startsWith("-") ? "gone" : ""}>${line}\n</span>`)}</pre>`}
  </div>`}<//>`;
}

export function History({job, query, reload}) {
  const pages = usePages(`jobs/${job.id}/versions`, {}, {when: (event) => event.kind === "job" && (event.job_id ?? event.id) === job.id});
  const edits = may("edit", job.group_id), shown = Number(query.rev) || null;
  const restore = async (version) => {
    const said = await confirmed({title: t("version.restoreTitle", {revision: version.revision}), action: t("action.restore"), asksReason: true,
      body: html`<p>${t("version.restoreBody")}</p><${Difference} jobId=${job.id} revision=${version.revision} against=${job.revision} />`});
    if (!said) return;
    const {value} = await act(() => post(`jobs/${job.id}/versions/${version.revision}/restore`, {revision: job.revision}, said), {done: t("version.restored", {name: job.name, revision: version.revision})});
    if (value) { pages.load.reload(); reload(); }
  };
  const columns = [
    {key: "revision", label: t("version.revision"), className: "tight", csv: (item) => item.revision, cell: (item) => html`${item.revision}${item.revision === job.revision && html` <span class="badge good">${t("version.now")}</span>`}`},
    {key: "at", label: t("version.at"), className: "tight", csv: (item) => dateTime(item.at_ms), cell: (item) => html`<${Time} ms=${item.at_ms} />`},
    {key: "actor", label: t("version.actor"), csv: (item) => item.actor, cell: (item) => html`<bdi>${item.actor}</bdi> <span class="faint">${has(`version.kind.${item.actor_kind}`) ? t(`version.kind.${item.actor_kind}`) : item.actor_kind}</span>`},
    {key: "action", label: t("version.action"), csv: (item) => item.action, cell: (item) => actionWords(item.action)},
    {key: "reason", label: t("version.reason"), className: "clip", csv: (item) => item.reason, cell: (item) => html`<span>${item.reason}</span>`},
    {key: "actions", label: t("jobs.actions"), className: "tight", cell: (item) => html`<span class="row-actions">
      <button type="button" class="small secondary" data-action="diff" aria-expanded=${shown === item.revision && !query.against} onClick=${() => setQuery({rev: shown === item.revision && !query.against ? undefined : item.revision, against: undefined})}>${t("version.what")}</button>
      ${item.revision !== job.revision && html`<button type="button" class="small secondary" data-action="against" onClick=${() => setQuery({rev: job.revision, against: item.revision})}>${t("version.toNow")}</button>`}
      ${edits && item.revision !== job.revision && item.action !== "delete" && html`<button type="button" class="small secondary" data-action="restore" onClick=${() => restore(item)}>${t("action.restore")}</button>`}</span>`},
  ];
  return html`${shown && html`<section class="card" aria-label=${t("version.what")}><button type="button" class="link small" onClick=${() => setQuery({rev: undefined, against: undefined})}>${t("action.close")}</button>
      <${Difference} jobId=${job.id} revision=${shown} against=${query.against} /></section>`}
    <${Table} name="versions" label=${t("job.tab.history")} pages=${pages} columns=${columns} idOf=${(item) => item.revision} empty=${t("version.none")} />`;
}
