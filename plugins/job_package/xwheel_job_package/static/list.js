// P14: packages by project, with their versions, who uses which, and what can be done with them.
import {html, useEffect} from "../../vendor/core.js";
import {get, getAll, url} from "../../api.js";
import {dateTime, number, t} from "../../i18n.js";
import {link} from "../../router.js";
import {may, useLoad} from "../../store.js";
import {Menu} from "../../components/dialog.js";
import {Filters, Search, Table, usePages} from "../../components/list.js";
import {Copy, Panel, Time} from "../../components/ui.js";
import {Uploads, stored} from "./upload.js";
import {showReport} from "./report.js";
import {Groups, askGroups} from "./groups.js";
import {askDelete, askSwitch} from "./versions.js";
import {State, mayChange, size} from "./words.js";

const SHORT = 12;

function Actions({of, project, limits, reload}) {
  const name = `${of.project} ${of.version}`, {may_read_files: mayRead, may_manage: mayManage} = project;
  return html`<span class="row-actions">
    <button type="button" class="small secondary" aria-label=${t("packages.switchOf", {name})} onClick=${() => askSwitch(of).then(reload)}>${t(mayChange() ? "packages.switch" : "packages.users")}</button>
    <${Menu} label=${t("packages.menuOf", {name})} items=${[
    {label: t("packages.report"), run: () => showReport(of.id, name)},
    mayRead && of.state === "stored" && {label: t("packages.files"), href: `#/packages/${of.id}/files`},
    mayRead && of.state === "stored" && {label: t("packages.download"), href: url(`packages/${of.id}/file`).href},
    mayManage && {label: t("packages.changeGroups"), run: () => askGroups(project, limits).then((changed) => changed && reload())},
    mayManage && {label: t("action.delete"), isDangerous: true, run: () => askDelete(of).then((gone) => gone && reload())},
  ]} /></span>`;
}

const Version = ({of, project, limits, reload}) => html`<tr data-version=${of.id}>
  <td data-label=${t("packages.version")}><strong><bdi>${of.version}</bdi></strong>${of.state !== "stored" && html` <${State} of=${of.state} />`}<code class="under">${of.file}</code></td>
  <td data-label=${t("packages.size")} class="tight">${size(of.size)}</td>
  <td data-label="SHA-256" class="tight"><code title=${of.sha256}>${of.sha256.slice(0, SHORT)}</code> <${Copy} text=${of.sha256} /></td>
  <td data-label=${t("packages.usedBy")}>${t("packages.jobs", {count: of.jobs})}${of.started > 0 && html`<span class="under">${t("packages.started", {count: of.started})}</span>`}</td>
  <td data-label=${t("packages.uploaded")}><${Time} ms=${of.uploaded_ms} /><span class="under"><bdi>${of.uploaded_by}</bdi></span></td>
  <td data-label=${t("action.menu")} class="tight"><${Actions} of=${of} project=${project} limits=${limits} reload=${reload} /></td></tr>`;

/** The versions of a project; the older ones are asked for where `query.all` names it. */
function Versions({project, isAll, limits, reload}) {
  const older = useLoad((abort) => (isAll ? getAll(`packages/projects/${encodeURIComponent(project.project)}`, {}, 2000, {abort}) : Promise.resolve(null)), [isAll, stored.value, project]);
  const shown = older.data ?? project.versions;
  return html`<div class="table-frame"><table class="list" data-versions=${project.project} aria-label=${t("packages.versionsOf", {name: project.project})}><thead><tr>
    ${["packages.version", "packages.size", null, "packages.usedBy", "packages.uploaded", "action.menu"].map((key) => html`<th scope="col">${key ? t(key) : "SHA-256"}</th>`)}</tr></thead>
    <tbody>${shown.map((of) => html`<${Version} key=${of.id} of=${of} project=${project} limits=${limits} reload=${reload} />`)}</tbody></table></div>
    ${project.total > shown.length && html`<a class="small" href=${link("/packages", {q: project.project, all: project.project})}>${t("packages.allVersions", {count: project.total})}</a>`}`;
}

export default function Packages({query}) {
  const limits = useLoad((abort) => get("packages/limits", {}, {abort}), []);
  const pages = usePages("packages/projects", {search: query.q}, {when: (event) => event.kind === "job", limit: 20, everyMs: 3000});
  const {reload} = pages.load;
  useEffect(() => { if (stored.value) reload(); }, [stored.value]);
  const sum = (item, name) => item.versions.reduce((found, version) => found + version[name], 0);
  const columns = [
    {key: "project", label: t("packages.project"), csv: (item) => item.project, cell: (item) => html`<strong><bdi>${item.project}</bdi></strong>`},
    {key: "newest", label: t("packages.newest"), csv: (item) => item.versions[0]?.version, cell: (item) => html`<bdi>${item.versions[0]?.version}</bdi>`},
    {key: "groups", label: t("packages.groups"), csv: (item) => item.groups.join(" "), cell: (item) => html`<${Groups} of=${item} />`},
    {key: "versions", label: t("packages.versions"), className: "tight right", csv: (item) => item.total, cell: (item) => number(item.total)},
    {key: "jobs", label: t("packages.usedBy"), className: "tight right", optional: "on", csv: (item) => sum(item, "jobs"), cell: (item) => number(sum(item, "jobs"))},
    {key: "uploaded", label: t("packages.lastUploaded"), optional: "on", csv: (item) => dateTime(item.versions[0]?.uploaded_ms), cell: (item) => html`<${Time} ms=${item.versions[0]?.uploaded_ms} relative />`},
  ];
  return html`<div class="page-head"><h1 tabindex="-1">${t("packages.title")}</h1></div>
    ${may("admin") && html`<${Panel} of=${limits}><${Uploads} limits=${limits.data} /><//>`}
    <${Filters} names=${["q", "all"]}><${Search} label=${t("packages.project")} /><//>
    <${Table} name="projects" label=${t("packages.title")} pages=${pages} columns=${columns} detail=${(item) => html`<${Versions} project=${item} isAll=${query.all === item.project} limits=${limits.data} reload=${reload} />`}
      empty=${query.q ? t("packages.noneFound") : t(may("admin") ? "packages.none" : "packages.noneYet")} />`;
}
