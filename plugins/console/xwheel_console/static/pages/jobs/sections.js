// The sections of a job's form, each with what it asks.
import {html, useEffect, useId, useLayoutEffect, useRef} from "../../vendor/core.js";
import {getAll} from "../../api.js";
import {has, language, t, zoneShown} from "../../i18n.js";
import {useLoad, useRested} from "../../store.js";
import {Field} from "../../components/fields.js";
import {Failure, Panel} from "../../components/ui.js";
import {ChildrenField} from "./family.js";
import {FireList, WeekStrip, countTogether, preview, typeWords} from "./schedule.js";
import {fromLocal, toLocal} from "../../zones.js";
import {scheduleIn} from "./values.js";
import {fieldLabel, valueWords} from "./words.js";

/** A field with the words of its name; locked if only code may change it. */
export function JobField({of, name, locked, hint, ...rest}) {
  return html`<${Field} of=${of} name=${name} label=${fieldLabel(name)} disabled=${locked.has(name)} hint=${locked.has(name) ? t("form.locked") : hint ?? (has(`hint.${name}`) ? t(`hint.${name}`) : null)} ...${rest} />`;
}
const chosen = (name, values) => values.map((value) => [value, valueWords(name, value)]);
const withOwn = (values, own) => (own && !values.includes(own) ? [...values, own] : values);

export function Basic({of, locked, groups, isNew}) {
  return html`${isNew && html`<${JobField} of=${of} name="group_id" kind="select" required locked=${locked} options=${[["", t("form.chooseGroup")], ...groups.map((group) => [group.id, group.title && group.title !== group.app_name ? `${group.title} (${group.app_name})` : group.app_name])]} onChange=${(value) => of.set({group_id: value ? Number(value) : null})} />`}
    <${JobField} of=${of} name="name" required maxlength="128" autocomplete="off" locked=${locked} />
    <${JobField} of=${of} name="description" kind="textarea" maxlength="1024" rows="2" locked=${locked} />`;
}

/** A choice of which each value has a line that explains it. */
function Radios({of, name, values, locked, explained}) {
  const id = useId(), error = of.errors.value[name];
  return html`<fieldset class="radios ${explained ? "" : "in-line"}" data-field=${name} disabled=${locked.has(name)}><legend>${fieldLabel(name)}</legend>${values.map((value) => html`<label class="inline" key=${value}><input type="radio" name=${`${name}-${id}`} value=${value} checked=${of.values.value[name] === value} onChange=${() => of.set({[name]: value})} />
    <span>${name === "schedule_type" ? typeWords(value) : valueWords(name, value)}${explained && html`<small class="under">${t(`explain.${name}.${value}`)}</small>`}</span></label>`)}
    ${error && html`<small class="field-error">${error}</small>`}</fieldset>`;
}

/** What the node makes of the schedule, as it is typed: words, the next ten fires and the week, or what is wrong with it. */
function Check({of, job, refused}) {
  const typed = JSON.stringify(scheduleIn(of.values.value, job));
  const key = useRested(typed, 250), atField = useRef(null), box = useRef(null), tall = useRef(0);
  const isBlank = !of.values.value.schedule_conf && of.values.value.schedule_type !== "NONE";
  const load = useLoad(async (abort) => {
    const schedule = JSON.parse(key);
    if (schedule.schedule_type === "NONE" || !schedule.schedule_conf) return {key, items: [], description: null, together: new Map()};
    const found = await preview(schedule, abort);
    return {...found, key, together: await countTogether(found.items, {jobId: job?.id, groupId: of.values.peek().group_id ?? job?.group_id, abort})};
  }, [key]);
  const isNow = typed === key && !load.isLoading, error = isNow && load.error?.status === 422 ? load.error : null;
  useEffect(() => {
    refused.current = error ? error.field ?? "schedule_conf" : null;
    const was = atField.current;
    if (was && was.name !== refused.current && of.errors.value[was.name] === was.text) { const {[was.name]: _, ...left} = of.errors.value; of.errors.value = left; }
    if (error) { of.errors.value = {...of.errors.value, [refused.current]: error.message}; atField.current = {name: refused.current, text: error.message}; }
  }, [error]);
  useLayoutEffect(() => { if (box.current && !load.error) tall.current = box.current.offsetHeight; });
  if (of.values.value.schedule_type === "NONE") return html`<p class="faint">${t("schedule.say.NONE")}</p>`;
  if (isBlank) return html`<p class="faint">${t("form.checkBlank")}</p>`;
  if (error) return html`<p class="field-error" role="status" data-check="refused" style=${{minHeight: `${tall.current}px`, margin: 0}}>${t("form.checkRefused")}</p>`;
  if (load.error) return html`<${Failure} error=${load.error} retry=${load.reload} />`;
  const found = load.data;
  return html`<div ref=${box} data-check=${isNow && found?.key === key ? "done" : "waits"}><${Panel} of=${load}>${found && html`
    ${found.description && html`<p data-words><strong>${found.description[language.value === "zh-CN" ? "zh" : "en"]}</strong></p>`}
    <h3>${t("fires.title")}</h3><${FireList} items=${found.items} together=${found.together} /><${WeekStrip} items=${found.items} zone=${of.values.value.timezone || "UTC"} />`}<//></div>`;
}

function When({of, name, locked}) {
  const id = useId(), zone = zoneShown(), error = of.errors.value[name];
  return html`<div class="field" data-field=${name}><label for=${id}>${fieldLabel(name)}</label><input id=${id} type="datetime-local" step="1" name=${name} disabled=${locked.has(name)} aria-describedby=${`${id}-hint`} aria-invalid=${error ? "true" : null}
    value=${toLocal(of.values.value[name], {seconds: true})} onChange=${(event) => of.set({[name]: fromLocal(event.target.value)})} /><small id=${`${id}-hint`}>${t("form.inZone", {zone})}</small>${error && html`<small class="field-error">${error}</small>`}</div>`;
}

function Calendars({of, name, names, locked}) {
  const error = of.errors.value[name], value = of.values.value[name];
  const all = withOwn(names, null).concat(value.filter((one) => !names.includes(one)));
  if (!all.length) return null;
  const toggle = (one) => of.set({[name]: value.includes(one) ? value.filter((item) => item !== one) : [...value, one]});
  return html`<fieldset data-field=${name} disabled=${locked.has(name)}><legend>${fieldLabel(name)}</legend>${all.map((one) => html`<label class="inline"><input type="checkbox" checked=${value.includes(one)} onChange=${() => toggle(one)} /> ${one}</label>`)}${error && html`<small class="field-error">${error}</small>`}</fieldset>`;
}

let zones = null;
export function Schedule({of, locked, choices, job, refused}) {
  const type = of.values.value.schedule_type, list = useId();
  const calendars = useLoad((abort) => getAll("calendars", {}, 1000, {abort}), []);
  zones ??= ["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? []).filter((zone) => zone !== "UTC")];
  const names = (calendars.data ?? []).map((one) => one.name);
  return html`<${Radios} of=${of} name="schedule_type" values=${withOwn(choices.schedules, type)} locked=${locked} />
    ${type !== "NONE" && html`<${JobField} of=${of} name="schedule_conf" locked=${locked} autocomplete="off" spellcheck="false" maxlength="512" class="mono" hint=${has(`hint.schedule_conf.${type}`) ? t(`hint.schedule_conf.${type}`) : null} />
      <${JobField} of=${of} name="timezone" locked=${locked} list=${list} autocomplete="off" maxlength="64" /><datalist id=${list}>${zones.map((zone) => html`<option value=${zone} />`)}</datalist>`}
    <div class="check card" role="region" aria-label=${t("form.check")}><${Check} of=${of} job=${job} refused=${refused} /></div>
    ${type !== "NONE" && html`<${Radios} of=${of} name="misfire_policy" values=${["fire_once", "skip", "fire_all"]} locked=${locked} explained />
      <details open=${["start_ms", "end_ms", "jitter_ms", "calendar_exclude", "calendar_require", "misfire_threshold_ms"].some((name) => of.errors.value[name]) || null}><summary>${t("form.moreSchedule")}</summary><div class="columns">
        <${When} of=${of} name="start_ms" locked=${locked} /><${When} of=${of} name="end_ms" locked=${locked} />
        <${JobField} of=${of} name="misfire_threshold_ms" kind="number" min="0" locked=${locked} /><${JobField} of=${of} name="jitter_ms" kind="number" min="0" locked=${locked} />
        <${Calendars} of=${of} name="calendar_exclude" names=${names} locked=${locked} /><${Calendars} of=${of} name="calendar_require" names=${names} locked=${locked} />
      </div></details>`}`;
}

/** Handlers that jobs of a group name already: what an executor really has is not known to the scheduler. */
async function handlersOf(groupId, abort) {
  if (!groupId) return [];
  const jobs = await getAll("jobs", {group_id: groupId}, 1000, {abort});
  return [...new Set(jobs.map((job) => job.handler).filter(Boolean))].sort();
}

export function Task({of, locked, choices, groups, job, isNew}) {
  const values = of.values.value, groupId = values.group_id ?? job?.group_id, list = useId();
  const handlers = useLoad((abort) => handlersOf(groupId, abort), [groupId]);
  const executors = useLoad((abort) => (groupId ? getAll(`groups/${groupId}/executors`, {}, 1000, {abort}) : []), [groupId], {when: (event) => event.kind === "executor"});
  const group = groups.find((one) => one.id === groupId);
  const types = withOwn([...new Set([...choices.glue, ...(group?.glue_types ?? [])])], values.glue_type);
  const isBean = values.glue_type === "BEAN";
  return html`<${JobField} of=${of} name="glue_type" kind="select" locked=${locked} options=${chosen("glue_type", types)} />
    ${isBean && html`<${JobField} of=${of} name="handler" locked=${locked} list=${list} required autocomplete="off" spellcheck="false" maxlength="255" hint=${executors.data ? t("form.handlerHint", {count: executors.data.length}) : null} /><datalist id=${list}>${(handlers.data ?? []).map((one) => html`<option value=${one} />`)}</datalist>`}
    ${!isBean && (isNew ? html`<${JobField} of=${of} name="glue_source" kind="textarea" rows="10" class="mono" spellcheck="false" locked=${locked} />` : html`<p><a href="#/jobs/${job.id}/code">${t("form.toCode")}</a></p>`)}
    <${JobField} of=${of} name="param" kind="textarea" rows="3" class="mono" spellcheck="false" locked=${locked} />`;
}

export function Advanced({of, locked, choices, job}) {
  const values = of.values.value, field = (name, rest = {}) => html`<${JobField} of=${of} name=${name} locked=${locked} ...${rest} />`;
  const select = (name, options) => field(name, {kind: "select", options: chosen(name, withOwn(options, values[name]))});
  const count = (name) => field(name, {kind: "number", min: 0});
  return html`<h3>${t("form.part.where")}</h3><div class="columns">${select("route_strategy", choices.routers)}${field("route_options", {maxlength: 512, autocomplete: "off"})}
      ${select("block_strategy", ["SERIAL_EXECUTION", "DISCARD_LATER", "COVER_EARLY"])}${select("block_scope", ["executor", "cluster"])}${count("wait_for_executor_s")}</div>
    <h3>${t("form.part.failures")}</h3><div class="columns">${count("timeout_s")}${count("max_retries")}
      ${(values.max_retries > 0 || values.retry_backoff !== "fixed") && html`${select("retry_backoff", ["fixed", "exponential", "list"])}
        ${values.retry_backoff === "list" ? field("retry_delays_ms", {autocomplete: "off"}) : count("retry_delay_ms")}${values.retry_backoff === "exponential" && count("retry_max_delay_ms")}${count("retry_jitter_pct")}`}
      ${select("delivery", ["at_least_once", "at_most_once"])}${field("recover_lost", {kind: "checkbox"})}</div>
    <h3>${t("form.part.chains")}</h3>${values.children !== undefined && html`<${ChildrenField} of=${of} jobId=${job?.id} />`}${select("join_mode", ["any", "all"])}
    <h3>${t("form.part.kept")}</h3><div class="columns">${count("retention_days")}${count("log_retention_days")}</div>`;
}
