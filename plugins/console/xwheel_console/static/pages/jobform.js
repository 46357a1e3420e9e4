// P5: the form of a job, new or changed, that knows what the node makes of its schedule before it is saved.
import {html, useEffect, useRef, useSignal} from "../vendor/core.js";
import {get, getAll, newKey, patch, post} from "../api.js";
import {t} from "../i18n.js";
import {go, leaving} from "../router.js";
import {may, preferences, useLoad} from "../store.js";
import {act, note, wordsOf} from "../components/dialog.js";
import {Field, Summary, useForm} from "../components/fields.js";
import {Panel} from "../components/ui.js";
import {resolveConflict} from "./jobs/conflict.js";
import {loadFamily, saveChildren} from "./jobs/family.js";
import {Advanced, Basic, Schedule, Task} from "./jobs/sections.js";
import {EDITED, NEW, changed, loadChoices, same, toBody, toForm} from "./jobs/values.js";
import {fieldLabel} from "./jobs/words.js";

const SECTIONS = ["basic", "schedule", "task", "advanced"];
const here = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** What a refusal says, at its field; as a note where it names none. */
function place(form, error) {
  const name = error.code === "name-taken" ? "name" : error.field?.split(/[.[]/)[0];
  if (name && name !== "body") form.errors.value = {...form.errors.value, [name]: wordsOf(error)};
  else note(wordsOf(error), {tone: "bad"});
}

const focusFirst = () => setTimeout(() => document.querySelector("[data-form=job] .failure a")?.focus());

/** Make a job; what it takes is only what differs from the API's defaults, and what every job says. */
async function create(form, reason) {
  const values = form.values.value;
  const names = ["group_id", "enabled", ...EDITED, ...(values.glue_type !== "BEAN" && values.glue_source ? ["glue_source"] : [])];
  const {value, error} = await act(() => post("jobs", toBody(values, names), {reason, key: newKey()}), {quiet: true});
  if (error) place(form, error);
  return value ?? null;
}

/** Change a job: only the fields that were changed, at the revision that was seen. */
async function change(form, base, reason) {
  const names = changed(form.values.value, base.values);
  if (!names.length) return base.job;
  const {value, error} = await act(() => patch(`jobs/${base.job.id}`, {...toBody(form.values.value, names), revision: base.job.revision}, {reason}), {quiet: true});
  if (value) return value;
  if (error.status === 409 && error.problem.revision) return {conflict: true};
  place(form, error);
  return null;
}

function Form({job, family, groups, choices, query}) {
  const isNew = !job;
  const start = isNew ? {...toForm(NEW, Object.keys(NEW)), timezone: here(), group_id: Number(query.group) || (groups.length === 1 ? groups[0].id : null), handler: query.handler ?? "", children: []}
    : {...toForm(job), children: family.children};
  const form = useForm(start), base = useRef({job, values: start, familyRevision: family?.revision}), refused = useRef(null), isTried = useSignal(false), busy = useSignal(false), reason = useSignal("");
  const locked = new Set(job?.declared && !job.declared.is_retired && !job.declared.is_released ? job.declared.owned : []);
  useEffect(() => { leaving.ask = () => (form.isChanged() ? t("form.leave") : null); return () => { leaving.ask = null; }; }, []);

  /** Show what somebody else changed next to what is typed here; afterwards the form is about the newest job. */
  const meet = async () => {
    const {value: theirs} = await act(() => get(`jobs/${job.id}`));
    if (!theirs) return;
    const newest = toForm(theirs), before = toForm(base.current.job), mine = toForm({...form.values.value, retry_delays_ms: [form.values.value.retry_delays_ms]});
    const taken = await resolveConflict(before, mine, newest, theirs);
    if (!taken) return;
    const children = same(form.values.value.children, base.current.values.children) ? (await loadFamily(job.id)).children : form.values.value.children;
    base.current = {job: theirs, values: {...newest, children: base.current.values.children}};
    form.set({...newest, ...taken, children});
    note(t("conflict.taken"));
  };
  const kids = async (saved) => {
    if (same(form.values.value.children, base.current.values.children)) return true;
    if (await saveChildren(form, saved.id, saved.revision)) return true;
    note(t("form.savedNotChildren"), {tone: "bad"});
    return false;
  };
  const submit = async (event) => {
    event.preventDefault();
    if (busy.value) return;
    isTried.value = true;
    if (isNew && !form.values.value.group_id) form.errors.value = {...form.errors.value, group_id: t("form.needed")};
    if (refused.current || (isNew && !form.values.value.group_id)) { focusFirst(); return; }
    busy.value = true;
    form.errors.value = {};
    try {
      const saved = await (base.current.job ? change(form, base.current, reason.value) : create(form, reason.value));
      if (saved?.conflict) { await meet(); return; }
      if (!saved) { focusFirst(); return; }
      base.current = {job: saved, values: {...form.values.value, children: base.current.values.children}};
      if (!(await kids(saved))) { focusFirst(); return; }
      note(t("form.saved", {name: saved.name}), {href: `#/jobs/${saved.id}`});
      go(`/jobs/${saved.id}`, {}, {force: true});
    } finally { busy.value = false; }
  };
  const all = {of: form, locked, choices, groups, job, isNew, refused};
  const parts = {basic: Basic, schedule: Schedule, task: Task, advanced: Advanced};
  const jump = (name) => () => { const part = document.getElementById(`part-${name}`); part.scrollIntoView(); part.querySelector("input, select, textarea")?.focus({preventScroll: true}); };
  const labels = Object.fromEntries(Object.keys({...NEW, children: 0}).map((name) => [name, fieldLabel(name)]));
  return html`<form class="with-index" data-form="job" data-revision=${base.current.job?.revision} onSubmit=${submit} novalidate>
    <nav class="side-index" aria-label=${t("form.index")}><ol>${SECTIONS.map((name) => html`<li><button type="button" class="link" onClick=${jump(name)}>${t(`form.section.${name}`)}</button></li>`)}</ol></nav>
    <div class="sections">
      ${isTried.value && html`<${Summary} of=${form} labels=${labels} />`}
      ${SECTIONS.map((name) => html`<section id=${`part-${name}`} class="card" aria-labelledby=${`head-${name}`} key=${name}><h2 id=${`head-${name}`}>${t(`form.section.${name}`)}</h2><${parts[name]} ...${all} /></section>`)}
      <div class="form-end">
        ${isNew ? html`<${Field} of=${form} name="enabled" kind="checkbox" label=${t("form.startAtOnce")} />` : preferences.value.askReason !== false && html`<label>${t("dialog.reason")}<input name="reason" maxlength="500" autocomplete="off" value=${reason.value} onInput=${(event) => { reason.value = event.target.value; }} /></label>`}
        <button type="submit" disabled=${busy.value} aria-busy=${busy.value || null}>${isNew ? t("action.create") : t("action.save")}</button>
        <a role="button" class="secondary" href=${isNew ? "#/jobs" : `#/jobs/${job.id}`}>${t("action.cancel")}</a>
      </div>
    </div></form>`;
}

export default function JobForm({id, query}) {
  const load = useLoad(async (abort) => {
    const [groups, choices, job, family] = await Promise.all([getAll("groups", {}, 5000, {abort}), loadChoices(abort), id ? get(`jobs/${id}`, {}, {abort}) : null, id ? loadFamily(id, abort) : null]);
    return {groups: groups.filter((group) => may("edit", group.id)), choices, job, family};
  }, [id]);
  // while another job is loaded, its form does not show the one before
  const data = load.data && (load.data.job?.id ?? null) === (id ? Number(id) : null) ? load.data : null;
  const allowed = data && (id ? may("edit", data.job.group_id) : may("edit"));
  return html`<div class="page-head"><h1 tabindex="-1">${id ? html`${t("nav.editJob")} <bdi>${data?.job.name ?? ""}</bdi>` : t("nav.newJob")}</h1></div>
    <${Panel} of=${{...load, data}}>${data && (allowed ? html`<${Form} key=${id ?? "new"} ...${data} query=${query} />` : html`<p class="empty">${t("error.forbidden")}</p>`)}<//>`;
}
