// What the store says of a package: the jobs in it, what is disabled, what is wrong and where, and what it needs.
import {html} from "../../vendor/core.js";
import {get} from "../../api.js";
import {number, t} from "../../i18n.js";
import {useLoad} from "../../store.js";
import {openDialog} from "../../components/dialog.js";
import {Facts, Panel, Time} from "../../components/ui.js";
import {Groups} from "./groups.js";
import {Place, State, reasonWords, size} from "./words.js";

/** Problems as a list: reason, where, and what the store says of it. */
export const Problems = ({items, packageId}) => html`<ul class="plain" data-problems>${items.map((item) => html`<li><strong>${reasonWords(item.reason)}</strong> <${Place} of=${item} packageId=${packageId} /> <span>${item.text}</span></li>`)}</ul>`;

const Warnings = ({report, packageId}) => html`<ul class="plain" data-warnings>
  ${!report.confirmed && html`<li>! ${report.unconfirmed ? t("packages.unconfirmedBecause", {why: report.unconfirmed}) : t("packages.unconfirmed")}</li>`}
  ${report.dependencies?.length > 0 && html`<li>! ${t("packages.needs", {count: report.dependencies.length})} ${report.dependencies.map((item) => html`<code class="chip">${item}</code> `)}</li>`}
  ${report.disabled > 0 && html`<li>! ${t("packages.disabled", {count: report.disabled})}</li>`}
  ${(report.unresolved ?? []).map((item) => html`<li>! ${t("packages.unresolved", {job: item.job, arguments: item.arguments.join(", ")})} <${Place} of=${item} packageId=${packageId} /></li>`)}
</ul>`;

const Jobs = ({items}) => html`<div class="table-frame"><table class="list" data-list="found"><thead><tr><th scope="col">${t("packages.job")}</th><th scope="col">${t("packages.cron")}</th><th scope="col">${t("packages.misfire")}</th></tr></thead>
  <tbody>${items.map((job) => html`<tr><td data-label=${t("packages.job")}><a href="#/packages/jobs/${job.job_id}"><bdi>${job.group_name}.${job.name}</bdi></a></td>
    <td data-label=${t("packages.cron")}>${job.cron ? html`<code>${job.cron}</code>` : t("packages.byHand")}</td>
    <td data-label=${t("packages.misfire")}>${t(`packages.misfire.${job.misfire}`)}</td></tr>`)}</tbody></table></div>`;

/** A report; `jobs` are given with the answer of an upload only. */
export function Report({of, jobs}) {
  const {report} = of;
  return html`<div data-report=${of.id}>
    ${jobs && html`<p><strong>${t("packages.found", {count: jobs.length})}</strong></p>`}
    ${jobs?.length > 0 && html`<${Jobs} items=${jobs} />`}
    ${report.problems.length > 0 && html`<div class="failure"><p><strong>${t("packages.problems", {count: report.problems.length})}</strong></p><${Problems} items=${report.problems} packageId=${of.may_read_files && of.id} /></div>`}
    <${Warnings} report=${report} packageId=${of.may_read_files && of.id} />
    <${Facts} items=${[
    [t("packages.file"), html`<code>${of.file}</code>`], [t("packages.size"), size(of.size)],
    [t("packages.unpacked"), report.members === undefined ? null : t("packages.unpackedIs", {files: number(report.members), size: size(report.unpacked_bytes)})],
    [t("packages.container"), t(`packages.container.${of.container}`)], [t("packages.uploaded"), html`<${Time} ms=${of.uploaded_ms} /> <bdi>${of.uploaded_by}</bdi>`],
    [t("packages.groups"), html`<${Groups} of=${of} />`],
    [t("packages.state"), html`<${State} of=${of.state} />`], ["SHA-256", html`<code data-sha256>${of.sha256}</code>`],
  ]} /></div>`;
}

function Loaded({id}) {
  const load = useLoad((abort) => get(`packages/${id}`, {}, {abort}), [id]);
  return html`<${Panel} of=${load}>${load.data && html`<${Report} of=${load.data} />`}<//>`;
}
export const showReport = (id, name) => openDialog((close) => html`<${Loaded} id=${id} /><footer><button type="button" autofocus onClick=${() => close()}>${t("action.close")}</button></footer>`, {label: t("packages.reportOf", {name}), wide: true});
