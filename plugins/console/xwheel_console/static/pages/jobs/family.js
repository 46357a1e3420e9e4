// Which jobs run after a job: a picker that finds them by name, the template of each one's parameter, and their parents.
import {html, useEffect, useId, useSignal} from "../../vendor/core.js";
import {ApiError, get, put} from "../../api.js";
import {t} from "../../i18n.js";
import {leaving} from "../../router.js";
import {may, useLoad, useRested} from "../../store.js";
import {Act, act, note, wordsOf} from "../../components/dialog.js";
import {Panel} from "../../components/ui.js";
import {useForm} from "../../components/fields.js";

const names = new Map();
async function nameOf(id, abort) {
  if (!names.has(id)) {
    try { const job = await get(`jobs/${id}`, {}, {abort}); names.set(id, job.name); } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      return `#${id}`;
    }
  }
  return names.get(id);
}

/** Children and parents of a job, with names. */
export async function loadFamily(jobId, abort) {
  const family = await get(`jobs/${jobId}/children`, {}, {abort});
  const ids = [...new Set([...family.children.map((one) => one.child_id), ...family.parents])];
  for (const id of ids) await nameOf(id, abort);
  return family;
}
const shownName = (id) => names.get(id) ?? `#${id}`;

/** A field that finds jobs by a part of their name. */
export function JobPicker({label, without, pick}) {
  const text = useSignal(""), id = useId();
  const wanted = useRested(text.value.trim(), 150);
  const found = useLoad(async (abort) => (wanted ? (await get("jobs", {name_contains: wanted, limit: 8}, {abort})).items : []), [wanted]);
  const choose = (job) => { names.set(job.id, job.name); text.value = ""; pick(job); };
  const items = (wanted && found.data ? found.data : []).filter((job) => !without.includes(job.id));
  return html`<div class="picker"><label for=${id}>${label}</label><input id=${id} type="search" name="pick" autocomplete="off" value=${text.value} onInput=${(event) => { text.value = event.target.value; }}
      onKeyDown=${(event) => { if (event.key === "Enter") { event.preventDefault(); if (items.length) choose(items[0]); } }} />
    ${wanted && html`<ul class="picked" aria-label=${t("family.found")}>${items.map((job) => html`<li key=${job.id}><button type="button" class="link small" onClick=${() => choose(job)}><bdi>${job.name}</bdi> <span class="faint">#${job.id}</span></button></li>`)}
      ${!found.isLoading && !items.length && html`<li class="faint">${t("palette.none")}</li>`}</ul>`}</div>`;
}

/** The children of a form's field `children`: [{child_id, param}]. A refusal, such as of a circle, stands below them. */
export function ChildrenField({of, jobId, disabled}) {
  const children = of.values.value.children ?? [], error = of.errors.value.children;
  const set = (next) => of.set({children: next});
  const setParam = (id, param) => set(children.map((one) => (one.child_id === id ? {...one, param} : one)));
  return html`<div class="children" data-field="children">
    ${children.length > 0 && html`<table aria-label=${t("family.children")}><thead><tr><th scope="col">${t("family.child")}</th><th scope="col">${t("family.param")}</th><th scope="col"><span class="only-read">${t("jobs.actions")}</span></th></tr></thead>
      <tbody>${children.map((one) => html`<tr key=${one.child_id} data-child=${one.child_id}><td><a href="#/jobs/${one.child_id}"><bdi>${shownName(one.child_id)}</bdi></a></td>
        <td><input aria-label=${t("family.paramOf", {name: shownName(one.child_id)})} placeholder=${t("family.own")} disabled=${disabled} value=${one.param ?? ""} onInput=${(event) => setParam(one.child_id, event.target.value === "" ? null : event.target.value)} /></td>
        <td>${!disabled && html`<button type="button" class="small secondary" aria-label=${t("family.remove", {name: shownName(one.child_id)})} onClick=${() => set(children.filter((item) => item !== one))}>✕</button>`}</td></tr>`)}</tbody></table>`}
    ${!disabled && html`<${JobPicker} label=${t("family.add")} without=${[jobId, ...children.map((one) => one.child_id)]} pick=${(job) => set([...children, {child_id: job.id, param: null}])} />`}
    <small>${t("family.hint")}</small>
    ${error && html`<small class="field-error" role="alert">${error}</small>`}
  </div>`;
}

/** Save children at a revision; a refusal stands at the field, and resolves with null. */
export async function saveChildren(form, jobId, revision) {
  const {value, error} = await act(() => put(`jobs/${jobId}/children`, {children: form.values.value.children, revision}), {quiet: true});
  if (value) return value;
  form.errors.value = {...form.errors.value, children: wordsOf(error)};
  return null;
}

function Editor({job, family, reload}) {
  const form = useForm({children: family.children});
  useEffect(() => { leaving.ask = () => (form.isChanged() ? t("form.leave") : null); return () => { leaving.ask = null; }; }, []);
  const edits = may("edit", job.group_id);
  const isSame = JSON.stringify(form.values.value.children) === JSON.stringify(family.children);
  const save = async () => {
    const saved = await saveChildren(form, job.id, family.revision);
    if (!saved) return;
    form.reset({children: saved.children});
    note(t("family.saved", {name: job.name}));
    reload();
  };
  return html`<${ChildrenField} of=${form} jobId=${job.id} disabled=${!edits} />
    ${!family.children.length && !edits && html`<p class="empty">${t("family.none")}</p>`}
    ${edits && html`<p><${Act} run=${save} disabled=${isSame}>${t("action.save")}<//></p>`}`;
}

/** The tab with the jobs that run after this one, and after which it runs. */
export function Family({job, reload}) {
  const load = useLoad((abort) => loadFamily(job.id, abort), [job.id, job.revision]);
  const again = () => { load.reload(); reload(); };
  return html`<${Panel} of=${load}>${load.data && html`<div class="columns">
    <section class="card"><h2>${t("family.children")}</h2><${Editor} key=${load.data.revision} job=${job} family=${load.data} reload=${again} /></section>
    <section class="card"><h2>${t("family.parents")}</h2>${load.data.parents.length ? html`<ul>${load.data.parents.map((id) => html`<li><a href="#/jobs/${id}"><bdi>${shownName(id)}</bdi></a></li>`)}</ul><p class="faint">${t(`value.join_mode.${job.join_mode}`)}</p>` : html`<p class="empty">${t("family.noParents")}</p>`}</section>
  </div>`}<//>`;
}
