// Alarms that happened, newest first.
import {html} from "../../vendor/core.js";
import {dateTime, number, t} from "../../i18n.js";
import {link, setQuery} from "../../router.js";
import {JobLink, useJobs} from "../../components/names.js";
import {useGroups} from "../../components/forms.js";
import {Choice, Filters, Table, usePages} from "../../components/list.js";
import {Time} from "../../components/ui.js";
import {Kind, State, noteWords, reasonWords} from "./words.js";

const FIXED = ["job", "run", "notice"];

/** What narrows the list and came with a link; a click takes it away. */
const Given = ({query, jobs}) => FIXED.filter((name) => query[name]).map((name) => html`<button type="button" key=${name} class="chip" onClick=${() => setQuery({[name]: undefined})}>${t(`alarm.of.${name}`)} ${name === "job" ? jobs.get(Number(query.job))?.name ?? `#${query.job}` : `#${query[name]}`} ✕</button>`);

export function Happened({query}) {
  const groups = useGroups();
  const pages = usePages("alarms", {group_id: query.group, job_id: query.job, run_id: query.run, notice_id: query.notice}, {when: (event) => event.kind === "alarm"});
  const jobs = useJobs([...pages.items.map((item) => item.job_id), query.job ? Number(query.job) : null]);
  const columns = [
    {key: "at", label: t("alarm.at"), className: "tight number", cell: (item) => html`<${Time} ms=${item.at_ms} />`, csv: (item) => dateTime(item.at_ms)},
    {key: "kind", label: t("alarm.kind"), className: "tight", cell: (item) => html`<${Kind} of=${item.kind} />`, csv: (item) => item.kind},
    {key: "job", label: t("nav.job"), cell: (item) => html`<${JobLink} id=${item.job_id} jobs=${jobs} /><span class="under">${groups.nameOf(item.group_id)}</span>`, csv: (item) => jobs.get(item.job_id)?.name ?? item.job_id},
    {key: "why", label: t("alarm.why"), className: "clip", cell: (item) => html`<div>${reasonWords(item.reason)}${item.reason && item.message ? ": " : ""}${item.message}</div>`, csv: (item) => [item.reason, item.message].filter(Boolean).join(": ")},
    {key: "run", label: t("nav.run"), className: "tight", cell: (item) => (item.run_id === null ? "–" : html`<a href=${`#/runs/${item.run_id}`}>#${item.run_id}</a>`), csv: (item) => item.run_id},
    {key: "count", label: t("alarm.count"), className: "tight right", cell: (item) => (item.count > 1 ? html`<a href=${link("/alarms", {notice: item.id})}>${number(item.count)}</a>` : number(item.count)), csv: (item) => item.count},
    {key: "state", label: t("filter.state"), cell: (item) => html`<${State} of=${item.state} />${item.note && html`<span class="under">${noteWords(item.note)}</span>`}${item.due_ms !== null && item.state === "held" && html`<span class="under">${t("alarm.until")} <${Time} ms=${item.due_ms} /></span>`}`, csv: (item) => item.state},
    {key: "told", label: t("alarm.attempts"), className: "tight", cell: (item) => (item.state === "told" ? html`<a href=${link("/alarms/attempts", {alarm: item.id})}>${t("alarm.attemptsOf")}</a>` : item.notice_id ? html`<a href=${link("/alarms", {notice: item.notice_id})}>${t("alarm.mergedInto", {id: item.notice_id})}</a>` : "–"), csv: (item) => item.notice_id},
    {key: "rule", label: t("alarm.rule"), className: "tight", optional: "on", cell: (item) => (item.rule_id === null ? "–" : html`<a href=${link("/alarms/rules", {rule: item.rule_id})}>#${item.rule_id}</a>`), csv: (item) => item.rule_id},
  ];
  return html`<${Filters} names=${["group", ...FIXED]}><${Choice} name="group" label=${t("filter.group")} options=${groups.list.map((group) => [group.id, group.title])} /><${Given} query=${query} jobs=${jobs} /><//>
    <${Table} name="alarms" label=${t("alarm.tab.alarms")} pages=${pages} columns=${columns} empty=${t("alarm.none")} rowHref=${(item) => (item.run_id ? `#/runs/${item.run_id}` : item.job_id ? `#/jobs/${item.job_id}` : link("/alarms/attempts", {alarm: item.id}))} />`;
}
