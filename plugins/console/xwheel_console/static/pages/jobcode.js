// P6: the source of a script job: write it, compare it, take an old one back, run it once.
import {html, useEffect, useSignal} from "../vendor/core.js";
import {get, post} from "../api.js";
import {number, t} from "../i18n.js";
import {leaving, setQuery} from "../router.js";
import {may, useLoad} from "../store.js";
import {runJob} from "../actions.js";
import {Act, act, confirmed, note, openDialog, useAsked, wordsOf} from "../components/dialog.js";
import {Diff} from "../components/diff.js";
import {usePages} from "../components/list.js";
import {Panel, Time} from "../components/ui.js";
import {Editor} from "./jobs/editor.js";
import {JobHead} from "./jobs/head.js";

const LEAST = 4, MOST = 100;

/** Ask what a version is about, in 4 to 100 characters as XXL-JOB does; resolves with the remark. */
const askRemark = (title, body = null) => openDialog((close) => html`<${Remark} close=${close} body=${body} />`, {label: title, wide: Boolean(body)});
function Remark({close, body}) {
  const remark = useSignal(""), isTold = useSignal(false);
  useAsked(close, () => Boolean(remark.value.trim()));
  const length = [...remark.value.trim()].length, isGood = length >= LEAST && length <= MOST;
  const submit = (event) => { event.preventDefault(); if (isGood) close(remark.value.trim()); else isTold.value = true; };
  return html`<form onSubmit=${submit}>${body}
    <label>${t("code.remark")}<input name="remark" autofocus autocomplete="off" aria-describedby="remark-hint" aria-invalid=${isTold.value && !isGood ? "true" : null} value=${remark.value} onInput=${(event) => { remark.value = event.target.value; }} /></label>
    <small id="remark-hint" class=${isTold.value && !isGood ? "field-error" : ""}>${t("code.remarkHint", {least: LEAST, most: MOST})}</small>
    <footer><button type="button" class="secondary" onClick=${() => close()}>${t("action.cancel")}</button><button type="submit">${t("action.save")}</button></footer></form>`;
}

const source = async (id, version, abort) => (version ? (await get(`jobs/${id}/glue/${version}`, {}, {abort})).source : "");

function Versions({versions, shown, job, restore}) {
  return html`<section class="versions" aria-label=${t("code.versions")}><h2>${t("code.versions")}</h2>
    <${Panel} of=${versions.load} isEmpty=${!versions.items.length} empty=${t("code.none")}><ol>${versions.items.map((item) => html`<li key=${item.number} data-version=${item.number} aria-current=${item.number === shown ? "true" : null}>
      <strong>${t("code.version", {number: number(item.number)})}</strong>${item.number === job.glue_version && html` <span class="badge good">${t("version.now")}</span>`}
      <span class="under"><${Time} ms=${item.created_ms} /> · <bdi>${item.author}</bdi></span><span class="under"><bdi>${item.remark}</bdi></span>
      <span class="row-actions"><button type="button" class="link small" onClick=${() => setQuery({version: item.number === shown ? undefined : item.number})}>${item.number === shown ? t("code.hideDiff") : t("code.diff")}</button>
        ${restore && item.number !== job.glue_version && html`<button type="button" class="link small" onClick=${() => restore(item)}>${t("action.restore")}</button>`}</span></li>`)}</ol>
      ${versions.hasMore && html`<button class="small" onClick=${versions.more}>${t("list.more")}</button>`}<//></section>`;
}

/** The newest source is compared with what is typed, and a version of choice with that. */
function Workplace({job, of, text, kept, stamp, query, reload}) {
  const shown = Number(query.version) || null;
  const mayWrite = may("script", job.group_id), isChanged = text.value !== kept.value.source;
  const versions = usePages(`jobs/${job.id}/glue`, {}, {when: (event) => event.kind === "job" && (event.job_id ?? event.id) === job.id});
  const loaded = useLoad(async (abort) => ({shown, text: await source(job.id, shown, abort)}), [shown]);
  const old = {...loaded, data: loaded.data?.shown === shown ? loaded.data.text : null};
  const done = async (saved) => {
    kept.value = {source: text.value, version: saved.number};
    note(t("code.saved", {number: saved.number}));
    await Promise.all([reload(), versions.load.reload()]);
  };
  const send = (revision, remark) => act(() => post(`jobs/${job.id}/glue`, {source: text.value, remark, revision}), {quiet: true});
  const save = async () => {
    const remark = await askRemark(t("code.save"));
    if (!remark) return;
    const {value, error} = await send(of.data.revision, remark);
    if (value) { await done(value); return; }
    if (error.status !== 409 || !error.problem.revision) { note(wordsOf(error), {tone: "bad"}); return; }
    const theirs = await get(`jobs/${job.id}`), now = await source(job.id, theirs.glue_version);
    const again = await confirmed({title: t("code.conflict"), action: t("code.saveMine"), body: html`<p>${t(now === kept.value.source ? "code.conflictOther" : "code.conflictBody")}</p>${now !== kept.value.source && html`<${Diff} one=${now} other=${text.value} label=${t("code.conflictDiff")} />`}`});
    if (!again) return;
    const second = await send(theirs.revision, remark);
    if (second.value) await done(second.value); else note(wordsOf(second.error), {tone: "bad"});
  };
  const restore = async (item) => {
    const then = await source(job.id, item.number), now = await source(job.id, of.data.glue_version);
    const remark = await askRemark(t("code.restoreTitle", {number: item.number}), html`<${Diff} one=${now} other=${then} label=${t("code.diff")} />`);
    if (!remark) return;
    const {value} = await act(() => post(`jobs/${job.id}/glue/${item.number}/restore`, {remark, revision: of.data.revision}), {done: t("code.restored", {number: item.number})});
    if (value) { text.value = then; stamp.value += 1; kept.value = {source: then, version: value.number}; reload(); versions.load.reload(); }
  };
  return html`<div class="code-page"><div>
      <div class="code-bar">
        ${mayWrite && html`<${Act} run=${save} disabled=${!isChanged || !text.value.trim()} data-action="save">${t("code.save")}<//>`}
        ${may("run", job.group_id) && html`<${Act} class="secondary" disabled=${isChanged || !job.glue_version} title=${isChanged ? t("code.saveFirst") : null} run=${() => runJob(job)} data-action="run">${t("code.run")}<//>`}
        ${isChanged && html`<span class="badge busy">${t("code.changed")}</span>`}
        <span class="faint">${job.glue_type}</span>
      </div>
      ${shown && html`<section class="card" data-diff=${shown}><h2>${t("code.diffTo", {number: shown})}</h2><${Panel} of=${old}>${old.data !== null && html`<${Diff} one=${old.data} other=${text.value} label=${t("code.diffTo", {number: shown})} />`}<//></section>`}
      <${Editor} value=${text.value} stamp=${stamp.value} change=${(next) => { text.value = next; }} type=${job.glue_type} readOnly=${!mayWrite} label=${t("code.editor", {name: job.name})} />
      <p class="faint"><small>${t(mayWrite ? "code.hint" : "code.readOnly")}</small></p>
    </div><${Versions} versions=${versions} shown=${shown} job=${job} restore=${mayWrite ? restore : null} /></div>`;
}

export default function JobCode({id, query}) {
  const load = useLoad((abort) => get(`jobs/${id}`, {}, {abort}), [id], {when: (event) => event.kind === "job" && (event.job_id ?? event.id) === Number(id)});
  const of = {...load, data: load.data?.id === Number(id) ? load.data : null};
  const text = useSignal(""), kept = useSignal(null), stamp = useSignal(0);
  const job = of.data;
  const first = useLoad(async (abort) => {
    if (!job) return null;
    const found = await source(job.id, job.glue_version, abort);
    // what is typed here stays when somebody else saves
    if (kept.peek() === null || text.peek() === kept.peek().source) { text.value = found; stamp.value += 1; kept.value = {source: found, version: job.glue_version}; }
    return {version: job.glue_version};
  }, [job?.id, job?.glue_version]);
  useEffect(() => { text.value = ""; kept.value = null; }, [id]);
  useEffect(() => { leaving.ask = () => (kept.peek() && text.peek() !== kept.peek().source ? t("form.leave") : null); return () => { leaving.ask = null; }; }, []);
  return html`<${JobHead} of=${of} id=${id} tab="code" /><${Panel} of=${of}>${job && (job.glue_type === "BEAN"
    ? html`<p class="empty">${t("code.bean")}</p>`
    : first.error ? html`<${Panel} of=${first} />` : kept.value && html`<${Workplace} job=${job} of=${of} text=${text} kept=${kept} stamp=${stamp} query=${query} reload=${of.reload} />`)}<//>`;
}
