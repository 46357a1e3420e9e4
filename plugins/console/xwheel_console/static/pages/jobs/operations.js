// What the audit says of a job, for those who may read it.
import {html} from "../../vendor/core.js";
import {dateTime, t} from "../../i18n.js";
import {may} from "../../store.js";
import {Table, usePages} from "../../components/list.js";
import {Badge, Time} from "../../components/ui.js";
import {show} from "../../components/diff.js";
import {fieldLabel} from "./words.js";

/** The fields of a row's detail in which before and after differ, in one line each. */
function changesOf({before = {}, after = {}}) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return names.filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]) && name !== "revision");
}

function Detail({detail}) {
  if (!detail || !Object.keys(detail).length) return null;
  const names = changesOf(detail);
  if (!names.length) return null;
  return html`<details><summary>${t("operation.fields", {count: names.length})}</summary><dl class="facts">${names.map((name) => html`<div><dt>${fieldLabel(name)}</dt><dd><bdi>${detail.before ? html`${show(detail.before[name])} → ` : ""}${show(detail.after?.[name])}</bdi></dd></div>`)}</dl></details>`;
}

export function Operations({job}) {
  const pages = usePages("audit", {object_kind: "job", object_id: job.id}, {when: (event) => event.kind === "job" && (event.job_id ?? event.id) === job.id});
  if (!may("admin", job.group_id)) return html`<p class="empty">${t("error.forbidden")}</p>`;
  const columns = [
    {key: "at", label: t("version.at"), className: "tight", csv: (row) => dateTime(row.at_ms), cell: (row) => html`<${Time} ms=${row.at_ms} />`},
    {key: "actor", label: t("version.actor"), csv: (row) => row.actor, cell: (row) => html`<bdi>${row.actor}</bdi>${row.address && html`<span class="under">${row.address}</span>`}`},
    {key: "action", label: t("version.action"), csv: (row) => row.action, cell: (row) => html`<code>${row.action}</code>`},
    {key: "outcome", label: t("operation.outcome"), className: "tight", csv: (row) => row.outcome, cell: (row) => html`<${Badge} state=${row.outcome === "done" ? "ok" : "error"} words=${row.outcome === "done" ? t("state.done") : row.outcome} />`},
    {key: "reason", label: t("version.reason"), csv: (row) => row.reason, cell: (row) => row.reason},
    {key: "detail", label: t("operation.detail"), cell: (row) => html`<${Detail} detail=${row.detail} />`},
  ];
  return html`<${Table} name="job-audit" label=${t("job.tab.operations")} pages=${pages} columns=${columns} empty=${t("operation.none")} />`;
}
