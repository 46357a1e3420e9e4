// Calendars: days and stretches of time that jobs keep out of, or keep to; as JSON, and what they leave of a schedule.
import {html, useEffect, useSignal} from "../vendor/core.js";
import {del, get, getAll, put} from "../api.js";
import {t, zoneShown} from "../i18n.js";
import {go, leaving} from "../router.js";
import {may, useLoad} from "../store.js";
import {act, confirmed} from "../components/dialog.js";
import {Field, Summary, useForm} from "../components/fields.js";
import {Failure, Panel, Time} from "../components/ui.js";

const ENTRIES = ["holidays", "workdays", "weekdays", "dates", "times", "without"];
const EXAMPLES = {
  holidays: {holidays: "CN"}, workdays: {workdays: "CN"}, weekdays: {weekdays: "SAT,SUN"}, dates: {dates: ["2026-12-24", "2026-12-27..2026-12-31"]},
  times: {times: ["2026-11-10T22:00..2026-11-11T06:00"]}, without: {without: ["2026-12-25"]},
};
const written = (definition) => JSON.stringify(definition, null, 2);

/** What a schedule fires under a calendar; the node works it out. */
function Preview({name, changedMs}) {
  const of = useForm({cron: "0 0 9 * * ?", mode: "calendar_exclude"});
  const {cron, mode} = of.values.value;
  const load = useLoad((abort) => get("schedule/preview", {schedule_type: "CRON", schedule_conf: cron, timezone: zoneShown(), [mode]: [name], count: 10}, {abort}), [name, cron, mode, changedMs]);
  return html`<section class="card" data-preview=${name}><h2>${t("calendar.preview")}</h2>
    <${Field} of=${of} name="cron" label=${t("calendar.cron")} spellcheck="false" />
    <${Field} of=${of} name="mode" kind="select" label=${t("calendar.mode")} options=${[["calendar_exclude", t("calendar.exclude")], ["calendar_require", t("calendar.require")]]} />
    ${load.error ? html`<${Failure} error=${load.error} retry=${load.reload} />` : html`<${Panel} of=${load} isEmpty=${!load.data?.items.length} empty=${t("calendar.never")}>
      <ol>${load.data?.items.map((item) => html`<li key=${item.due_ms}><${Time} ms=${item.due_ms} /></li>`)}</ol><p class="faint">${t("calendar.inZone", {zone: zoneShown()})}</p><//>`}
  </section>`;
}

function parse(text) {
  const found = JSON.parse(text);
  if (found === null || typeof found !== "object" || Array.isArray(found)) throw new SyntaxError(t("calendar.noObject"));
  return found;
}

function Editor({calendar, canEdit, reload}) {
  const isNew = calendar === null;
  const of = useForm({name: calendar?.name ?? "", calendar: written(calendar?.definition ?? EXAMPLES.holidays)});
  const problem = useSignal(null), isBusy = useSignal(false);
  useEffect(() => {
    if (!canEdit) return undefined;
    leaving.ask = () => (of.isChanged() ? t("form.leave") : null);
    return () => { leaving.ask = null; };
  }, []);
  const save = async (event) => {
    event.preventDefault();
    const {name, calendar: text} = of.values.value;
    problem.value = null;
    let definition;
    try { definition = parse(text); } catch (error) { of.errors.value = {calendar: t("calendar.noJson", {why: error.message})}; return; }
    isBusy.value = true;
    const {value, error} = await act(() => put(`calendars/${encodeURIComponent(name || "-")}`, definition), {quiet: true, done: t("calendar.saved", {name})});
    isBusy.value = false;
    if (error) {
      // what stands behind "calendar." is an entry; it is named before the words
      const entry = error.field?.startsWith("calendar.") ? error.field.slice(9) : error.field && !["name", "body"].includes(error.field) ? error.field : null;
      if (error.field === "name") of.errors.value = {name: error.message};
      else if (error.field) of.errors.value = {calendar: entry ? `${entry}: ${error.message}` : error.message};
      else problem.value = error;
      return;
    }
    of.reset({name: value.name, calendar: written(value.definition)});
    reload();
    go("/calendars", {name: value.name}, {replace: !isNew, force: true});
  };
  const remove = async () => {
    const said = await confirmed({title: t("calendar.deleteTitle", {name: calendar.name}), action: t("action.delete"), isDangerous: true, asksReason: true, typed: calendar.name});
    if (!said) return;
    const {error} = await act(() => del(`calendars/${encodeURIComponent(calendar.name)}`, said), {done: t("calendar.deleted", {name: calendar.name})});
    if (!error) { leaving.ask = null; reload(); go("/calendars"); }
  };
  const use = (entry) => {
    let known = {};
    try { known = parse(of.values.value.calendar); } catch { /* it begins anew */ }
    of.set({calendar: written({...known, ...EXAMPLES[entry]})});
  };
  return html`<form onSubmit=${save} class="card" data-calendar=${calendar?.name ?? ""} novalidate><h2>${isNew ? t("calendar.new") : calendar.name}</h2>
    <${Summary} of=${of} labels=${{name: t("calendar.name"), calendar: t("calendar.definition")}} />
    ${isNew && html`<${Field} of=${of} name="name" label=${t("calendar.name")} hint=${t("name.help")} maxlength="64" autocomplete="off" spellcheck="false" />`}
    <${Field} of=${of} name="calendar" kind="textarea" label=${t("calendar.definition")} class="mono" rows="12" spellcheck="false" readonly=${!canEdit} />
    ${problem.value && html`<${Failure} error=${problem.value} />`}
    ${calendar && html`<p class="faint">${t("executor.updated")} <${Time} ms=${calendar.updated_ms} /></p>`}
    <details><summary>${t("calendar.entries")}</summary><dl class="entries">${ENTRIES.map((entry) => html`<div key=${entry}><dt><code>${entry}</code> ${canEdit && html`<button type="button" class="link small" aria-label=${t("calendar.insertEntry", {entry})} onClick=${() => use(entry)}>${t("calendar.insert")}</button>`}</dt><dd>${t(`calendar.entry.${entry}`)}</dd></div>`)}</dl></details>
    ${canEdit && html`<footer class="row-end">${!isNew && html`<button type="button" class="danger" onClick=${remove}>${t("action.delete")}</button>`}<button type="submit" disabled=${isBusy.value}>${isNew ? t("action.create") : t("action.save")}</button></footer>`}
  </form>`;
}

function One({name, canEdit, reload}) {
  const load = useLoad((abort) => get(`calendars/${encodeURIComponent(name)}`, {}, {abort}), [name]);
  const renew = () => { reload(); load.reload(); };
  return html`<${Panel} of=${load}>${load.data?.name === name && html`<${Editor} key=${name} calendar=${load.data} canEdit=${canEdit} reload=${renew} /><${Preview} name=${name} changedMs=${load.data.updated_ms} />`}<//>`;
}

export default function Calendars({query}) {
  const list = useLoad((abort) => getAll("calendars", {}, 5000, {abort}), [], {when: (event) => event.kind === "calendar"});
  const canEdit = may("edit", null);
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.calendars")}</h1><span class="actions">${canEdit && html`<a role="button" href="#/calendars?new=1">${t("calendar.new")}</a>`}</span></div>
    <p class="faint">${t("calendar.help")}</p>
    <div class="columns narrow-left">
      <${Panel} of=${list} isEmpty=${!list.data?.length} empty=${t("calendar.none")}><ul class="choices" aria-label=${t("nav.calendars")}>${list.data?.map((item) => html`<li key=${item.name}><a href=${`#/calendars?name=${encodeURIComponent(item.name)}`} aria-current=${query.name === item.name ? "true" : null}>${item.name}</a> <span class="faint"><${Time} ms=${item.updated_ms} relative /></span></li>`)}</ul><//>
      <div>${query.new && canEdit ? html`<${Editor} key="new" calendar=${null} canEdit reload=${list.reload} />` : query.name ? html`<${One} key=${query.name} name=${query.name} canEdit=${canEdit} reload=${list.reload} />` : html`<p class="faint">${t("calendar.choose")}</p>`}</div>
    </div>`;
}
