// P15: what operators do with a job of a package, now → after, and what became of it.
import {html, useEffect, useRef, useSignal} from "../../vendor/core.js";
import {ApiError, get, getAll, post} from "../../api.js";
import {dateTime, duration, t} from "../../i18n.js";
import {may, useLoad, useRested} from "../../store.js";
import {Act, act, openDialog, useAsked} from "../../components/dialog.js";
import {Field, Summary, useForm} from "../../components/fields.js";
import {Table, usePages} from "../../components/list.js";
import {Facts, Failure, Panel, Time} from "../../components/ui.js";
import {FireList, preview} from "../../pages/jobs/schedule.js";
import {loadOwnWords, Result, State, mayChange, reasonWords} from "./words.js";

const OPERATIONS = ["Start", "Pause", "Restart"];
const CHANGES = ["cron", "misfire", "time_zone", "package_id"];
const MISFIRES = ["None", "FireAndProceed", "DoNothing", "IgnoreMisfires"];
/** How often an operation that is not closed is asked for. */
const POLL_MS = 1000;

const labelOf = (name) => t(`packages.field.${name}`);
const LABELS = () => Object.fromEntries(CHANGES.map((name) => [name, labelOf(name)]));

/** A value of a job of a package in words; `versions` are names of packages by their ids. */
function words(name, value, versions) {
  if (name === "state") return html`<${State} of=${value} />`;
  if (name === "package_id") return html`<bdi>${versions.get(value) ?? `#${value}`}</bdi>`;
  if (name === "misfire") return t(`packages.misfire.${value}`);
  if (name === "cron") return value ? html`<code>${value}</code>` : t("packages.byHand");
  if (name === "time_zone") return value || t("packages.nodeZone");
  return String(value);
}

const SHOWN = ["state", ...CHANGES];
/** Each value as it is and as it will be, or was. */
export const NowAfter = ({now, after, versions, names = SHOWN}) => html`<dl class="facts" data-now-after>${names.map((name) => {
  const isNew = now[name] !== after[name];
  return html`<div data-change=${name} data-changed=${isNew ? "yes" : "no"}><dt>${labelOf(name)}</dt><dd>${words(name, now[name], versions)}${isNew && html` <span aria-label=${t("packages.becomes")}>→</span> <strong>${words(name, after[name], versions)}</strong>`}</dd></div>`;
})}</dl>`;

const namesOf = (items) => new Map(items.map((item) => [item.id, item.version]));

/** What a job of a package is, with the versions that it may have. */
async function read(id, abort) {
  // one after another: a node takes only a few calls of plugins at once
  const row = await get(`packages/jobs/${id}`, {}, {abort}), job = await get(`jobs/${id}`, {}, {abort});
  return {row, job, versions: await getAll(`packages/jobs/${id}/versions`, {}, 1000, {abort})};
}

/** Open the dialog of a job, once it is known how the job is by now; `done` is called when it is closed. */
export async function operate(job, {operation = null, done = null} = {}) {
  const {value} = await act(async () => { await loadOwnWords(); return read(job.id); });
  if (!value) return;
  const first = operation ?? (value.row.state === "Startup" ? "Restart" : "Start");
  openDialog((close) => html`<${Operate} found=${value} operation=${first} close=${close} />`, {label: t("packages.operateOn", {name: value.job.name}), wide: true}).then(done);
}

/** The node's word on a cron: its next fires, or what is wrong with it. */
function Fires({cron, zone, say}) {
  const rested = useRested(cron, 250), restedZone = useRested(zone, 250);
  const load = useLoad(async (abort) => {
    if (!rested) return null;
    try {
      const found = await preview({schedule_type: "CRON", schedule_conf: rested, timezone: restedZone || undefined}, abort);
      say(null);
      return found;
    } catch (error) {
      if (!(error instanceof ApiError) || error.isNetwork) throw error;
      say(error.message);
      return null;
    }
  }, [rested, restedZone]);
  return load.data && html`<div data-fires-of=${rested}><${FireList} items=${load.data.items} count=${3} /></div>`;
}

function Operate({found, operation, close}) {
  const {row, job, versions} = found;
  const now = useSignal(row), closed = useSignal(null), problem = useSignal(null), isBusy = useSignal(false);
  const of = useForm({operation, ...Object.fromEntries(CHANGES.map((name) => [name, row[name]]))});
  const names = namesOf(versions), editable = mayChange(job.group_id), {values} = of;
  const isPause = values.value.operation === "Pause";
  const pick = (name) => (name === "package_id" ? Number(values.value[name]) : values.value[name].trim());
  const wanted = isPause ? {} : Object.fromEntries(CHANGES.map((name) => [name, pick(name)]).filter(([name, value]) => value !== now.value[name]));
  const after = {...now.value, ...wanted, state: isPause ? "Pause" : "Startup"};
  useAsked(close, () => of.isChanged() && !closed.value);
  const submit = async (event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    problem.value = null;
    const {value, error} = await act(() => post(`packages/jobs/${job.id}/operations`, {operation: values.value.operation, version: now.value.version, ...wanted}), {quiet: true});
    isBusy.value = false;
    if (value) closed.value = value;
    else if (error.problem.reason === "stale_version") { now.value = {...now.value, ...error.problem.facts}; problem.value = error; }
    else if (!of.take(error)) problem.value = error;
  };
  if (closed.value) return html`<${Outcome} first=${closed.value} job=${job} names=${names} close=${close} />`;
  const text = {of, disabled: !editable, autocomplete: "off", spellcheck: "false", maxlength: "200"};
  return html`<form onSubmit=${submit} novalidate data-operate=${job.id}>
    <${Summary} of=${of} labels=${LABELS()} />
    <fieldset class="radios in-line"><legend>${t("packages.operation")}</legend>${OPERATIONS.map((name) => html`<label class="inline"><input type="radio" name="operation" value=${name} checked=${values.value.operation === name} onChange=${() => of.set({operation: name})} /> ${t(`packages.operation.${name}`)}</label>`)}</fieldset>
    <p class="faint">${t(`packages.operationHelp.${values.value.operation}`)}</p>
    ${!isPause && html`<${Field} ...${text} name="cron" label=${labelOf("cron")} hint=${t("packages.cronHint")} class="mono" />
      <${Fires} cron=${values.value.cron.trim()} zone=${values.value.time_zone.trim()} say=${(words) => { of.errors.value = Object.fromEntries([...Object.entries(of.errors.value).filter(([name]) => name !== "cron"), ...(words ? [["cron", words]] : [])]); }} />
      <${Field} ...${text} name="time_zone" label=${labelOf("time_zone")} hint=${t("packages.zoneHint")} />
      <${Field} of=${of} disabled=${!editable} name="misfire" kind="select" label=${labelOf("misfire")} options=${MISFIRES.map((name) => [name, t(`packages.misfire.${name}`)])} hint=${t(`packages.misfireHelp.${values.value.misfire}`)} />
      <${Field} of=${of} disabled=${!editable} name="package_id" kind="select" label=${labelOf("package_id")} options=${versions.map((item) => [item.id, item.version])} />
      ${!editable && html`<p class="faint">${t("packages.mayNotChange")}</p>`}`}
    <h3>${t("packages.nowAfter")}</h3><${NowAfter} now=${now.value} after=${after} versions=${names} />
    ${problem.value && html`<div class="failure" role="alert" data-refused=${problem.value.problem.reason ?? problem.value.status}><p><strong>${reasonWords(problem.value.problem.reason ?? "refused")}</strong></p><p>${problem.value.isNetwork ? t("error.unsent") : problem.value.message}</p></div>`}
    <footer><button type="button" class="secondary" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" disabled=${isBusy.value} aria-busy=${isBusy.value || null} class=${isPause ? "danger" : ""}>${t(`packages.operation.${values.value.operation}`)}</button></footer></form>`;
}

/** Load again a second after each answer while something is not closed: one that takes longer is waited for. */
function usePolled(isOpen, {atMs, error, reload}) {
  useEffect(() => {
    if (!isOpen) return undefined;
    const timer = setTimeout(reload, POLL_MS);
    return () => clearTimeout(timer);
  }, [isOpen, atMs, error]);
}

/** What became of an operation, as it moves. */
function Outcome({first, job, names, close}) {
  const load = useLoad(async (abort) => {
    const {items} = await get(`packages/jobs/${job.id}/operations`, {limit: 20}, {abort});
    return items.find((item) => item.id === first.operation_id) ?? null;
  }, [first.operation_id]);
  const row = load.data ?? {...first, operation: null, ended_ms: null, error: ""};
  const ref = useRef(null);
  usePolled(row.ended_ms === null, load);
  // the form that had the focus is gone
  useEffect(() => { ref.current?.focus(); }, []);
  return html`<div role="status" aria-live="polite" data-outcome=${row.ended_ms === null ? "open" : "closed"}>
    <p><${Result} of=${row} /></p>
    ${load.data && html`<${NowAfter} now=${JSON.parse(row.before)} after=${JSON.parse(row.after)} versions=${names} />`}
    ${load.error && html`<${Failure} error=${load.error} retry=${load.reload} />`}
    <p class="faint">${t(row.ended_ms === null ? "packages.stillOpen" : "packages.closed")}</p></div>
    <footer><button type="button" ref=${ref} onClick=${() => close(true)}>${t("action.close")}</button></footer>`;
}

const changedIn = (row) => {
  const [now, after] = [JSON.parse(row.before), JSON.parse(row.after)];
  return {now, after, names: SHOWN.filter((name) => now[name] !== after[name])};
};

function Log({id, names}) {
  const pages = usePages(`packages/jobs/${id}/operations`, {}, {when: (event) => event.kind === "job" && (event.job_id ?? event.id) === Number(id), limit: 25, everyMs: POLL_MS});
  usePolled(pages.items.some((item) => item.ended_ms === null), pages.load);
  const columns = [
    {key: "at", label: t("packages.begun"), className: "tight", csv: (row) => dateTime(row.begun_ms), cell: (row) => html`<${Time} ms=${row.begun_ms} />`},
    {key: "actor", label: t("packages.actor"), csv: (row) => row.actor, cell: (row) => html`<bdi>${row.actor}</bdi>`},
    {key: "operation", label: t("packages.operation"), className: "tight", csv: (row) => row.operation, cell: (row) => t(`packages.operation.${row.operation}`)},
    {key: "changes", label: t("packages.nowAfter"), csv: (row) => row.after, cell: (row) => { const {now, after, names: changed} = changedIn(row); return changed.length ? html`<${NowAfter} now=${now} after=${after} versions=${names} names=${changed} />` : html`<span class="faint">–</span>`; }},
    {key: "result", label: t("packages.result"), csv: (row) => `${row.result} ${row.reason}`.trim(), cell: (row) => html`<${Result} of=${row} />`},
    {key: "took", label: t("packages.took"), className: "tight", optional: "on", csv: (row) => (row.ended_ms === null ? "" : row.ended_ms - row.begun_ms), cell: (row) => (row.ended_ms === null ? html`<span class="faint">–</span>` : duration(row.ended_ms - row.begun_ms))},
  ];
  return html`<h2>${t("packages.operations")}</h2><${Table} name="package-operations" label=${t("packages.operations")} pages=${pages} columns=${columns} empty=${t("packages.noOperations")} />`;
}

export default function PackageJob({id}) {
  const load = useLoad((abort) => read(id, abort), [id], {when: (event) => event.kind === "job" && (event.job_id ?? event.id) === Number(id)});
  const found = load.data;
  const open = (operation) => operate(found.job, {operation, done: load.reload});
  const names = namesOf(found?.versions ?? []);
  useEffect(() => { if (found) queueMicrotask(() => { document.title = `${found.job.name} · xwheel`; }); });
  return html`<div class="page-head"><h1 tabindex="-1">${found ? html`<bdi>${found.job.name}</bdi>` : t("packages.operations")}</h1>
    ${found && html`<${State} of=${found.row.state} /><span class="actions">
      ${may("run", found.job.group_id) && OPERATIONS.map((name) => html`<${Act} class=${name === "Start" ? "" : "secondary"} data-operation=${name} run=${() => open(name)}>${t(`packages.operation.${name}`)}…<//>`)}
      <a role="button" class="secondary" href="#/jobs/${id}">${t("packages.toJob")}</a></span>`}</div>
    <${Panel} of=${load}>${found && html`<${Facts} items=${[
    [t("packages.project"), html`<a href="#/packages?q=${encodeURIComponent(found.row.project)}"><bdi>${found.row.project}</bdi></a>`],
    ...CHANGES.map((name) => [labelOf(name), words(name, found.row[name], names)]), [t("packages.jobVersion"), found.row.version],
  ]} /><${Log} id=${id} names=${names} />`}<//>`;
}
