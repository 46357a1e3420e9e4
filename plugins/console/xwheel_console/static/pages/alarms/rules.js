// Alarm rules: which alarms are sent where; and the channels of this node, with a test.
import {html, useEffect} from "../../vendor/core.js";
import {del} from "../../api.js";
import {t} from "../../i18n.js";
import {link, setQuery} from "../../router.js";
import {may} from "../../store.js";
import {Menu, act, confirmed, openDialog} from "../../components/dialog.js";
import {useGroups} from "../../components/forms.js";
import {Choice, Filters, Table, usePages} from "../../components/list.js";
import {JobLink, useJobs} from "../../components/names.js";
import {Badge, Time} from "../../components/ui.js";
import {Channels, openTest, useChannels} from "./channels.js";
import {KINDS, Kind} from "./words.js";
import {RuleForm} from "./ruleform.js";

/** A job's rule is its group's; until the job is known no one is asked to change it. */
const mayEditRule = (rule, jobs) => (rule.job_id === null ? may("edit", rule.group_id) : jobs.has(rule.job_id) && may("edit", jobs.get(rule.job_id).group_id));

export async function removeRule(rule) {
  const name = rule.name || `#${rule.id}`;
  const said = await confirmed({title: t("alarm.deleteTitle", {name}), body: html`<p>${t("alarm.deleteBody")}</p>`, action: t("action.delete"), isDangerous: true, asksReason: true, typed: name});
  return said && act(() => del(`alarms/rules/${rule.id}`, said), {done: t("alarm.deleted", {name})});
}

export function Rules({query}) {
  const groups = useGroups(), channels = useChannels();
  const pages = usePages("alarms/rules", {group_id: query.group, job_id: query.job}, {when: (event) => event.kind === "rule"});
  const jobs = useJobs([...pages.items.map((item) => item.job_id), query.job ? Number(query.job) : null]);
  const mayEdit = (rule) => mayEditRule(rule, jobs);
  const edit = async (rule) => {
    const made = await openDialog((close) => html`<${RuleForm} rule=${rule} groups=${groups.list} channels=${channels.list.map((one) => one.name)} jobId=${query.job} close=${close} />`, {label: rule ? t("alarm.editRule", {name: rule.name || `#${rule.id}`}) : t("alarm.newRule"), wide: true});
    if (made) pages.load.reload();
    if (query.rule) setQuery({rule: undefined});
  };
  const wanted = query.rule && pages.items.find((rule) => String(rule.id) === query.rule);
  // a link to a rule opens it once the list is there
  useEffect(() => { if (wanted && mayEdit(wanted)) edit(wanted); }, [wanted?.id, Boolean(wanted && mayEdit(wanted))]);
  const where = (rule) => (rule.job_id !== null ? html`<${JobLink} id=${rule.job_id} jobs=${jobs} />` : rule.group_id !== null ? t("alarm.scopeOf", {group: groups.nameOf(rule.group_id)}) : t("alarm.scope.all"));
  const columns = [
    {key: "name", label: t("alarm.name"), cell: (rule) => html`<strong>${rule.name || `#${rule.id}`}</strong>`, csv: (rule) => rule.name},
    {key: "scope", label: t("alarm.scope"), cell: where, csv: (rule) => (rule.job_id !== null ? `job ${rule.job_id}` : rule.group_id !== null ? `group ${rule.group_id}` : "all")},
    {key: "kinds", label: t("alarm.kinds"), cell: (rule) => [...rule.kinds].sort((one, other) => KINDS.indexOf(one) - KINDS.indexOf(other)).map((kind) => html`<${Kind} key=${kind} of=${kind} /> `), csv: (rule) => rule.kinds.join(" ")},
    {key: "targets", label: t("alarm.targets"), cell: (rule) => (rule.targets.length ? rule.targets.map((target) => html`<div><strong class="number">${target.channel}</strong> ${target.receivers.join(", ")}</div>`) : html`<span class="faint">${t("alarm.silent")}</span>`), csv: (rule) => rule.targets.map((target) => target.channel).join(" ")},
    {key: "enabled", label: t("filter.state"), className: "tight", cell: (rule) => html`<${Badge} state=${rule.enabled ? "started" : "stopped"} words=${t(rule.enabled ? "alarm.on" : "alarm.off")} />`, csv: (rule) => rule.enabled},
    {key: "updated", label: t("alarm.updated"), optional: "off", cell: (rule) => html`<${Time} ms=${rule.updated_ms} />`, csv: (rule) => rule.updated_ms},
    {key: "actions", label: t("action.menu"), className: "tight", cell: (rule) => html`<${Menu} label=${t("alarm.ruleMenu", {name: rule.name || `#${rule.id}`})} items=${[
      mayEdit(rule) && {label: t("action.edit"), run: () => edit(rule)},
      ...(may("edit") ? rule.targets.map((target) => ({label: t("alarm.testTitle", {channel: target.channel}), run: () => openTest(target.channel, target.receivers.join("\n"))})) : []),
      mayEdit(rule) && {label: t("action.delete"), isDangerous: true, run: () => removeRule(rule).then((gone) => gone && pages.load.reload())},
    ]} />`},
  ];
  return html`<div class="page-head"><${Filters} names=${["group", "job"]}><${Choice} name="group" label=${t("filter.group")} options=${groups.list.map((group) => [group.id, group.title])} />
      ${query.job && html`<button type="button" class="chip" onClick=${() => setQuery({job: undefined})}>${t("alarm.of.job")} ${jobs.get(Number(query.job))?.name ?? `#${query.job}`} ✕</button>`}<//>
      <span class="actions">${may("edit") && html`<button onClick=${() => edit(null)}>${t("alarm.newRule")}</button>`}</span></div>
    <p class="faint">${t("alarm.rulesHelp")}</p>
    <${Table} name="rules" label=${t("alarm.tab.rules")} pages=${pages} columns=${columns} empty=${t("alarm.noRules")} rowKeys=${{e: (rule) => (mayEdit(rule) ? edit(rule) : false)}} />
    <${Channels} channels=${channels} />
    <p><a href=${link("/alarms/attempts")}>${t("alarm.tab.attempts")}</a></p>`;
}
