// Attempts to tell alarms, with what the other side answered.
import {html} from "../../vendor/core.js";
import {dateTime, duration, number, t} from "../../i18n.js";
import {link, setQuery} from "../../router.js";
import {JobLink, useJobs} from "../../components/names.js";
import {useGroups} from "../../components/forms.js";
import {Choice, Filters, Table, usePages} from "../../components/list.js";
import {Time} from "../../components/ui.js";
import {Attempt} from "./words.js";

export function Attempts({query}) {
  const groups = useGroups();
  const pages = usePages("alarms/attempts", {alarm_id: query.alarm, group_id: query.group, job_id: query.job}, {when: (event) => event.kind === "alarm"});
  const jobs = useJobs(pages.items.map((item) => item.job_id));
  const columns = [
    {key: "at", label: t("alarm.started"), className: "tight number", cell: (item) => html`<${Time} ms=${item.started_ms ?? item.due_ms} />`, csv: (item) => dateTime(item.started_ms)},
    {key: "channel", label: t("alarm.channel"), cell: (item) => html`<strong>${item.channel}</strong><span class="under">${item.receivers.join(", ") || t("alarm.defaultReceivers")}</span>`, csv: (item) => item.channel},
    {key: "state", label: t("filter.state"), className: "tight", cell: (item) => html`<${Attempt} of=${item.state} />`, csv: (item) => item.state},
    {key: "answer", label: t("alarm.answer"), cell: (item) => item.answer || html`<span class="faint">–</span>`, csv: (item) => item.answer},
    {key: "number", label: t("alarm.try"), className: "tight right", cell: (item) => number(item.number), csv: (item) => item.number},
    {key: "took", label: t("alarm.took"), className: "tight right number", cell: (item) => duration(item.took_ms), csv: (item) => item.took_ms},
    {key: "job", label: t("nav.job"), cell: (item) => html`<${JobLink} id=${item.job_id} jobs=${jobs} />`, csv: (item) => jobs.get(item.job_id)?.name ?? item.job_id},
    {key: "alarm", label: t("alarm.alarm"), className: "tight", cell: (item) => html`<a href=${link("/alarms/attempts", {alarm: item.alarm_id})}>#${item.alarm_id}</a>`, csv: (item) => item.alarm_id},
  ];
  return html`<${Filters} names=${["group", "alarm", "job"]}><${Choice} name="group" label=${t("filter.group")} options=${groups.list.map((group) => [group.id, group.title])} />
      ${query.alarm && html`<button type="button" class="chip" onClick=${() => setQuery({alarm: undefined})}>${t("alarm.alarm")} #${query.alarm} ✕</button>`}<//>
    <${Table} name="attempts" label=${t("alarm.tab.attempts")} pages=${pages} columns=${columns} empty=${t("alarm.noAttempts")} />`;
}
