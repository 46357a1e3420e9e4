// The form of an alarm rule.
import {html, useSignal} from "../../vendor/core.js";
import {get, patch, post} from "../../api.js";
import {byName, t, zoneShown} from "../../i18n.js";
import {may, useLoad, useRested} from "../../store.js";
import {Field, useForm} from "../../components/fields.js";
import {DialogForm} from "../../components/forms.js";
import {KINDS, Kind} from "./words.js";
import {openTest, splitReceivers} from "./channels.js";

const PASSING = [...KINDS, "recovered"];
const LABELS = () => Object.fromEntries(["name", "kinds", "when", "targets", "window_s", "recovery", "quiet_from", "quiet_to", "quiet_timezone", "quiet_pass", "not_run_s", "still_running_s", "enabled"].map((name) => [name, t(`alarm.field.${name}`)]));

const fresh = (jobId) => ({name: "", scope: jobId ? "job" : may("edit", null) ? "all" : "group", job_id: jobId ?? null, group_id: null, kinds: ["failed", "lost"], when: "last", targets: [], window_s: 300, recovery: true, quiet_from: "", quiet_to: "", quiet_timezone: zoneShown(), quiet_pass: [], not_run_s: 0, still_running_s: 0, enabled: true});
const ofRule = (rule) => ({...Object.fromEntries(Object.keys(fresh(null)).filter((name) => name !== "scope").map((name) => [name, rule[name]])), scope: rule.job_id !== null ? "job" : rule.group_id !== null ? "group" : "all", targets: rule.targets.map(({channel, receivers}) => ({channel, receivers: receivers.join("\n")}))});

function Kinds({of, name, from, legend}) {
  const chosen = of.values.value[name];
  const toggle = (kind) => of.set({[name]: chosen.includes(kind) ? chosen.filter((one) => one !== kind) : [...chosen, kind]});
  return html`<fieldset data-field=${name} class="kinds"><legend>${legend}</legend>${from.map((kind) => html`<label class="inline" key=${kind}><input type="checkbox" name=${name} value=${kind} checked=${chosen.includes(kind)} onChange=${() => toggle(kind)} /> <${Kind} of=${kind} /></label>`)}
    ${of.errors.value[name] && html`<small class="field-error">${of.errors.value[name]}</small>`}</fieldset>`;
}

function Targets({of, channels}) {
  const rows = of.values.value.targets;
  const change = (index, values) => of.set({targets: rows.map((row, at) => (at === index ? {...row, ...values} : row))});
  return html`<fieldset data-field="targets"><legend>${t("alarm.field.targets")}</legend>
    ${!rows.length && html`<p class="faint">${t("alarm.silentHelp")}</p>`}
    ${rows.map((row, index) => html`<div class="grant" key=${index}>
      <label>${t("alarm.channel")}<select onChange=${(event) => change(index, {channel: event.target.value})}>${[...new Set([...channels, row.channel])].map((channel) => html`<option value=${channel} selected=${channel === row.channel}>${channel}</option>`)}</select></label>
      <label>${t("alarm.receivers")}<textarea rows="2" value=${row.receivers} placeholder=${t("alarm.defaultReceivers")} onInput=${(event) => change(index, {receivers: event.target.value})}></textarea></label>
      <button type="button" class="small secondary" onClick=${() => openTest(row.channel, row.receivers)}>${t("alarm.sendTest")}</button>
      <button type="button" class="link small" aria-label=${t("alarm.removeTarget", {channel: row.channel})} onClick=${() => of.set({targets: rows.filter((_, at) => at !== index)})}>✕</button></div>`)}
    ${channels.length > 0 ? html`<button type="button" class="small secondary" onClick=${() => of.set({targets: [...rows, {channel: channels[0], receivers: ""}]})}>${t("alarm.addTarget")}</button>` : html`<p class="faint">${t("alarm.noChannels")}</p>`}
    ${of.errors.value.targets && html`<small class="field-error">${of.errors.value.targets}</small>`}</fieldset>`;
}

/** A job by a part of its name. */
function PickJob({of}) {
  const typed = useSignal(""), rested = useRested(typed.value, 200), id = of.values.value.job_id;
  const found = useLoad((abort) => get("jobs", {name_contains: rested.trim() || undefined, limit: 20}, {abort}), [rested]);
  const present = useLoad((abort) => (id ? get(`jobs/${id}`, {}, {abort}).catch(() => null) : Promise.resolve(null)), [id]);
  const jobs = (found.data?.items ?? []).filter((job) => may("edit", job.group_id));
  const listed = present.data && !jobs.some((job) => job.id === present.data.id) ? [present.data, ...jobs] : jobs;
  return html`<div class="grant" data-field="job_id"><label>${t("alarm.findJob")}<input type="search" value=${typed.value} onInput=${(event) => { typed.value = event.target.value; }} /></label>
    <label>${t("nav.job")}<select onChange=${(event) => of.set({job_id: Number(event.target.value) || null})}><option value="">–</option>${listed.map((job) => html`<option value=${job.id} selected=${job.id === Number(id)}>${job.name}</option>`)}</select></label>
    ${of.errors.value.job_id && html`<small class="field-error">${of.errors.value.job_id}</small>`}</div>`;
}

function bodyOf(values) {
  const {scope, ...rest} = values;
  return {...rest, job_id: scope === "job" ? Number(values.job_id) || null : null, group_id: scope === "group" ? Number(values.group_id) || null : null,
    targets: values.targets.map((target) => ({channel: target.channel, receivers: splitReceivers(target.receivers)}))};
}

export function RuleForm({rule, groups, channels, jobId, close}) {
  const editable = groups.filter((group) => may("edit", group.id));
  const of = useForm(rule ? ofRule(rule) : {...fresh(jobId ? Number(jobId) : null), group_id: editable[0]?.id ?? null});
  const {scope, kinds, quiet_from: from, quiet_to: to} = of.values.value;
  const save = (values) => (rule ? patch(`alarms/rules/${rule.id}`, bodyOf(values), {match: rule.revision}) : post("alarms/rules", bodyOf(values)));
  const scopes = [...(may("edit", null) ? [["all", t("alarm.scope.all")]] : []), ["group", t("alarm.scope.group")], ["job", t("alarm.scope.job")]];
  return html`<${DialogForm} of=${of} close=${close} save=${save} labels=${LABELS()} action=${rule ? t("action.save") : t("action.create")} isReady=${kinds.length > 0 && (scope !== "job" || Boolean(of.values.value.job_id))} done=${t("alarm.ruleSaved")}>
    <${Field} of=${of} name="name" label=${t("alarm.field.name")} maxlength="128" autofocus />
    <${Field} of=${of} name="scope" kind="select" label=${t("alarm.scope")} options=${scopes} hint=${t("alarm.scopeHelp")} />
    ${scope === "group" && html`<${Field} of=${of} name="group_id" kind="select" label=${t("filter.group")} options=${[...editable].sort((one, other) => byName(one.title, other.title)).map((group) => [group.id, group.title])} />`}
    ${scope === "job" && html`<${PickJob} of=${of} />`}
    <${Kinds} of=${of} name="kinds" from=${KINDS} legend=${t("alarm.field.kinds")} />
    ${kinds.includes("not_run") && html`<${Field} of=${of} name="not_run_s" kind="number" min="0" label=${t("alarm.field.not_run_s")} />`}
    ${kinds.includes("still_running") && html`<${Field} of=${of} name="still_running_s" kind="number" min="0" label=${t("alarm.field.still_running_s")} />`}
    <${Targets} of=${of} channels=${channels} />
    <${Field} of=${of} name="when" kind="select" label=${t("alarm.field.when")} options=${[["last", t("alarm.when.last")], ["each", t("alarm.when.each")]]} />
    <${Field} of=${of} name="window_s" kind="number" min="0" max="86400" label=${t("alarm.field.window_s")} hint=${t("alarm.windowHelp")} />
    <${Field} of=${of} name="recovery" kind="checkbox" label=${t("alarm.field.recovery")} />
    <details open=${Boolean(from)}><summary>${t("alarm.quiet")}</summary>
      <div class="columns"><${Field} of=${of} name="quiet_from" kind="time" label=${t("alarm.field.quiet_from")} /><${Field} of=${of} name="quiet_to" kind="time" label=${t("alarm.field.quiet_to")} /></div>
      <${Field} of=${of} name="quiet_timezone" label=${t("alarm.field.quiet_timezone")} list="zones" spellcheck="false" />
      <datalist id="zones">${Intl.supportedValuesOf("timeZone").map((name) => html`<option value=${name}></option>`)}</datalist>
      ${(from || to) && html`<${Kinds} of=${of} name="quiet_pass" from=${PASSING} legend=${t("alarm.field.quiet_pass")} />`}</details>
    <${Field} of=${of} name="enabled" kind="checkbox" label=${t("alarm.field.enabled")} /><//>`;
}
