// What is done with a version: jobs are switched to it, and it is deleted, once it is known who uses it.
import {html, useSignal} from "../../vendor/core.js";
import {del, getAll, post} from "../../api.js";
import {number, t} from "../../i18n.js";
import {useLoad} from "../../store.js";
import {act, note, openDialog} from "../../components/dialog.js";
import {Failure, Panel} from "../../components/ui.js";
import {Result, State, mayChange, reasonWords} from "./words.js";

/** Jobs in one call; each call is short, so that one sees how far it is. */
const AT_ONCE = 20;
const useUsers = (id) => useLoad((abort) => getAll(`packages/${id}/jobs`, {limit: 200}, 5000, {abort}), [id]);
const nameOf = (of) => `${of.project} ${of.version}`;

/** The jobs of a package's project with the version of each; those who may, switch some of them to this one. */
export const askSwitch = (of) => openDialog((close) => html`<${Switch} of=${of} close=${close} />`, {label: t("packages.switchTo", {name: nameOf(of)}), wide: true});

const canSwitch = (of, job) => of.state === "stored" && !job.uses && job.offered && mayChange(job.group_id);

function Switch({of, close}) {
  const load = useUsers(of.id), chosen = useSignal(new Set()), results = useSignal(new Map()), isBusy = useSignal(false), problem = useSignal(null);
  const jobs = load.data ?? [];
  const free = jobs.filter((job) => canSwitch(of, job) && results.value.get(job.job_id)?.result !== "Success");
  const picked = free.filter((job) => chosen.value.has(job.job_id));
  const toggle = (id) => { const next = new Set(chosen.value); if (!next.delete(id)) next.add(id); chosen.value = next; };
  const run = async () => {
    isBusy.value = true;
    problem.value = null;
    const ids = picked.map((job) => job.job_id);
    for (let from = 0; from < ids.length && !problem.value; from += AT_ONCE) {
      const {value, error} = await act(() => post(`packages/${of.id}/switch`, {job_ids: ids.slice(from, from + AT_ONCE)}), {quiet: true});
      problem.value = error ?? null;
      if (value) results.value = new Map([...results.value, ...value.items.map((item) => [item.job_id, item])]);
    }
    isBusy.value = false;
    chosen.value = new Set();
    const good = [...results.value.values()].filter((item) => item.result !== "Failed").length;
    note(t("packages.switched", {good: number(good), all: number(results.value.size), name: nameOf(of)}), {tone: good < results.value.size ? "bad" : "good"});
  };
  const mayAny = jobs.some((job) => mayChange(job.group_id)) && of.state === "stored";
  return html`<div data-switch=${of.id}><${Panel} of=${load} isEmpty=${!jobs.length} empty=${t("packages.noJobs")}>
    ${mayAny && html`<p>${t("packages.switchHelp")}</p>`}
    <div class="table-frame"><table class="list" data-list="users"><thead><tr>
      ${mayAny && html`<th class="choose"><input type="checkbox" aria-label=${t("list.chooseAll")} disabled=${!free.length || isBusy.value} checked=${free.length > 0 && picked.length === free.length} onChange=${() => { chosen.value = new Set(picked.length === free.length ? [] : free.map((job) => job.job_id)); }} /></th>`}
      <th scope="col">${t("packages.job")}</th><th scope="col">${t("packages.state")}</th><th scope="col">${t("packages.nowAfter")}</th></tr></thead>
      <tbody>${jobs.map((job) => html`<tr data-user=${job.job_id}>
        ${mayAny && html`<td class="choose"><input type="checkbox" aria-label=${t("packages.chooseJob", {name: job.job_name})} disabled=${!free.includes(job) || isBusy.value} checked=${chosen.value.has(job.job_id)} onChange=${() => toggle(job.job_id)} /></td>`}
        <td data-label=${t("packages.job")}><a href="#/packages/jobs/${job.job_id}" onClick=${() => close()}><bdi>${job.job_name}</bdi></a></td>
        <td data-label=${t("packages.state")}><${State} of=${job.enabled ? "Startup" : job.state === "Startup" ? "Pause" : job.state} /></td>
        <td data-label=${t("packages.nowAfter")}><bdi>${job.package_version ?? "–"}</bdi> ${results.value.has(job.job_id) ? html`<${Result} of=${results.value.get(job.job_id)} />`
    : job.uses ? t("packages.usesIt") : !job.offered ? t("packages.notOffered") : chosen.value.has(job.job_id) ? html`→ <strong><bdi>${of.version}</bdi></strong>` : ""}</td></tr>`)}</tbody></table></div>
    ${problem.value && html`<${Failure} error=${problem.value} />`}<//>
    <footer><button type="button" class="secondary" onClick=${() => close()}>${t("action.close")}</button>
      ${mayAny && html`<button type="button" data-action="switch-jobs" disabled=${!picked.length || isBusy.value} aria-busy=${isBusy.value || null} onClick=${run}>${t("packages.switchSome", {count: picked.length})}</button>`}</footer></div>`;
}

/** Delete a version, after it is shown who uses it; resolves with true if it is gone or on its way. */
export const askDelete = (of) => openDialog((close) => html`<${Delete} of=${of} close=${close} />`, {label: t("packages.deleteTitle", {name: nameOf(of)})});

function Delete({of, close}) {
  const load = useUsers(of.id), typed = useSignal(""), reason = useSignal(""), isForced = useSignal(false), isBusy = useSignal(false), refused = useSignal(null);
  const users = (load.data ?? []).filter((job) => job.uses);
  const started = users.filter((job) => job.enabled);
  const isInUse = started.length > 0 || refused.value?.problem.reason === "package_in_use";
  const runs = refused.value?.problem.facts?.runs ?? [];
  const isReady = load.data && typed.value === nameOf(of) && (!isInUse || isForced.value) && !isBusy.value;
  const submit = async (event) => {
    event.preventDefault();
    if (!isReady) return;
    isBusy.value = true;
    const {value, error} = await act(() => del(`packages/${of.id}`, {params: isForced.value ? {force: true} : {}, reason: reason.value.trim()}), {quiet: true});
    isBusy.value = false;
    if (error) { refused.value = error; load.reload(); return; }
    note(value.state === "deleted" ? t("packages.deleted", {name: nameOf(of)}) : t("packages.deleting", {name: nameOf(of), count: value.runs.length}), {tone: value.state === "deleted" ? "good" : "bad"});
    close(true);
  };
  return html`<form onSubmit=${submit} data-delete=${of.id}><${Panel} of=${load}>
    <p>${users.length ? t("packages.deleteUsers", {count: users.length}) : t("packages.deleteNone")}</p>
    ${users.length > 0 && html`<ul class="batch-names">${users.slice(0, 50).map((job) => html`<li><bdi>${job.job_name}</bdi> <${State} of=${job.enabled ? "Startup" : "Shutdown"} /></li>`)}${users.length > 50 && html`<li>${t("batch.more", {count: users.length - 50})}</li>`}</ul>`}
    ${refused.value && html`<div class="failure" role="alert"><p><strong>${reasonWords(refused.value.problem.reason ?? "refused")}</strong></p><p>${refused.value.isNetwork ? t("error.unsent") : refused.value.message}</p>
      ${runs.length > 0 && html`<p>${runs.map((id) => html`<a href="#/runs/${id}" onClick=${() => close()}>#${id}</a> `)}</p>`}</div>`}
    ${isInUse && html`<label class="inline"><input type="checkbox" name="force" checked=${isForced.value} onChange=${(event) => { isForced.value = event.target.checked; }} /> ${t("packages.force", {count: started.length})}</label>`}
    <label>${t("dialog.reason")}<input name="reason" maxlength="500" autocomplete="off" value=${reason.value} onInput=${(event) => { reason.value = event.target.value; }} /></label>
    <label>${t("dialog.type", {name: nameOf(of)})}<input name="typed" autocomplete="off" spellcheck="false" value=${typed.value} onInput=${(event) => { typed.value = event.target.value; }} /></label><//>
    <footer><button type="button" class="secondary" onClick=${() => close()}>${t("action.cancel")}</button><button type="submit" class="danger" disabled=${!isReady} aria-busy=${isBusy.value || null}>${t("action.delete")}</button></footer></form>`;
}
