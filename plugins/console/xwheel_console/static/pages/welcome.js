// First steps: an executor, a job, and a run whose log is seen, in three minutes.
import {html, useEffect, useSignal} from "../vendor/core.js";
import {get, getAll, newKey, post} from "../api.js";
import {t} from "../i18n.js";
import {setQuery} from "../router.js";
import {may, useLoad} from "../store.js";
import {Act, act, note} from "../components/dialog.js";
import {Field, Summary, useForm} from "../components/fields.js";
import {Badge, Copy, Panel, RunBadge, isOpen} from "../components/ui.js";
import {fieldLabel} from "./jobs/words.js";

/** Where executors register unless the node says otherwise. */
const PORT = 8081;
const POLL_MS = 1500;

const python = ({app, address, secret}) => `from xwheel.executor import Executor, job

@job("hello")
def hello(ctx):
    ctx.log(f"hello {ctx.param}")

Executor(handlers=[hello], app_name=${JSON.stringify(app)}, admin_addresses=[${JSON.stringify(address)}], access_token=${JSON.stringify(secret)}).run_forever()
`;
const java = ({app, address, secret}) => `xxl.job.admin.addresses=${address}/xxl-job-admin
xxl.job.accessToken=${secret}
xxl.job.executor.appname=${app}
`;

/** Call again and again while the component is on the page, whatever the events say. */
function usePoll(run, isWanted) {
  useEffect(() => {
    if (!isWanted) return undefined;
    const timer = setInterval(run, POLL_MS);
    return () => clearInterval(timer);
  }, [isWanted]);
}

const Step = ({number, title, isDone, children}) => html`<li class="step card ${isDone ? "done" : ""}" data-step=${number} data-done=${isDone ? "yes" : "no"}><h2><span aria-hidden="true">${isDone ? "✓" : number}</span> ${title}${isDone && html`<span class="only-read"> ${t("welcome.isDone")}</span>`}</h2>${children}</li>`;

function GroupForm({done}) {
  const form = useForm({app_name: ""});
  const submit = async (event) => {
    event.preventDefault();
    const {value, error} = await act(() => post("groups", {app_name: form.values.value.app_name}), {quiet: true});
    if (value) done(value); else if (!form.take(error)) note(error.message, {tone: "bad"});
  };
  return html`<form onSubmit=${submit} class="inline-form"><${Field} of=${form} name="app_name" label=${t("welcome.app")} maxlength="64" required autocomplete="off" /><button type="submit">${t("welcome.makeGroup")}</button></form>`;
}

function Executor({group, executors, port}) {
  const address = useSignal(`${location.protocol}//${location.hostname}:${port}`), secret = useSignal(null), kind = useSignal("python");
  const make = async () => {
    const {value} = await act(() => post("secrets", {name: `first-steps-${Date.now().toString(36)}`, group_id: group.id}));
    if (value) secret.value = value.secret;
  };
  const code = (kind.value === "python" ? python : java)({app: group.app_name, address: address.value, secret: secret.value ?? t("welcome.secretHere")});
  return html`<p>${t("welcome.executorBody")}</p>
    <div class="columns"><label>${t("welcome.address")}<input name="address" value=${address.value} onInput=${(event) => { address.value = event.target.value.trim(); }} /><small>${t("welcome.addressHint", {port: String(port)})}</small></label>
      <div><span class="label">${t("welcome.secret")}</span><p>${secret.value ? t("welcome.secretMade") : may("admin", group.id) ? html`<${Act} class="secondary" run=${make} data-action="secret">${t("welcome.makeSecret")}<//>` : t("welcome.secretAsk")}</p></div></div>
    <div class="tabs" role="toolbar" aria-label=${t("welcome.kind")}>${["python", "java"].map((one) => html`<button type="button" class="link" aria-pressed=${kind.value === one ? "true" : "false"} onClick=${() => { kind.value = one; }}>${t(`welcome.kind.${one}`)}</button>`)}</div>
    <pre data-code=${kind.value} tabindex="0" aria-label=${t("welcome.code")}><code>${code}</code></pre><p><${Copy} text=${code} /> <span class="faint">${t(`welcome.run.${kind.value}`)}</span></p>
    <p role="status" data-executors=${executors.length}>${executors.length ? html`<${Badge} state="up" words=${t("welcome.there", {count: executors.length})} /> ${executors.map((one) => one.address).slice(0, 5).join(", ")}` : html`<${Badge} state="planned" words=${t("welcome.waits")} />`}</p>`;
}

function FirstJob({group}) {
  const form = useForm({name: t("welcome.jobName"), handler: "hello", param: "world"});
  const submit = async (event) => {
    event.preventDefault();
    const {value, error} = await act(() => post("jobs", {...form.values.value, group_id: group.id}, {key: newKey()}), {quiet: true});
    if (value) { note(t("form.saved", {name: value.name})); setQuery({job: value.id, run: undefined}); } else if (error.code === "name-taken") form.errors.value = {name: error.message}; else if (!form.take(error)) note(error.message, {tone: "bad"});
  };
  return html`<form onSubmit=${submit}><${Summary} of=${form} labels=${{name: fieldLabel("name"), handler: fieldLabel("handler")}} /><div class="columns">${["name", "handler", "param"].map((name) => html`<${Field} of=${form} name=${name} label=${fieldLabel(name)} autocomplete="off" />`)}</div><button type="submit">${t("welcome.makeJob")}</button></form>`;
}

/** A run and its log, as it grows. */
function FirstRun({id}) {
  const load = useLoad(async (abort) => ({run: await get(`runs/${id}`, {}, {abort}), log: await get(`runs/${id}/log`, {tail: 200}, {abort}).catch(() => null)}), [id], {when: (event) => event.kind === "run" && event.id === id, everyMs: 500});
  const of = load.data, isWaiting = !of || isOpen(of.run) || (of.log && !of.log.is_end);
  usePoll(load.reload, isWaiting);
  return html`<${Panel} of=${load}>${of && html`<p><a href="#/runs/${id}">${t("welcome.runOf", {id})}</a> <${RunBadge} run=${of.run} /></p>
    <pre class="first-log" data-log=${id} tabindex="0" aria-label=${t("action.log")}>${of.log?.content || t("welcome.noLog")}</pre>
    ${!isOpen(of.run) && (of.run.state === "succeeded" ? html`<p data-finished><strong>${t("welcome.finished")}</strong> <a href="#/jobs/${of.run.job_id}/edit">${t("welcome.giveSchedule")}</a> · <a href="#/jobs">${t("nav.jobs")}</a></p>` : html`<p class="field-error">${of.run.message || of.run.reason}</p>`)}`}<//>`;
}

/** The three steps; what was done so far stands in the address. */
export function Steps({query}) {
  const groups = useLoad((abort) => getAll("groups", {}, 5000, {abort}), [], {when: (event) => event.kind === "group"});
  const all = groups.data ?? [], group = all.find((one) => String(one.id) === query.group) ?? all[0] ?? null;
  const health = useLoad((abort) => get("health", {}, {abort}), []);
  const executors = useLoad((abort) => (group ? getAll(`groups/${group.id}/executors`, {}, 1000, {abort}) : []), [group?.id], {when: (event) => event.kind === "executor"});
  const job = useLoad((abort) => (query.job ? get(`jobs/${query.job}`, {}, {abort}) : null), [query.job]);
  const there = executors.data ?? [], runId = Number(query.run) || null;
  usePoll(executors.reload, !there.length);
  const start = async () => {
    const {value} = await act(() => post(`jobs/${job.data.id}/run`, {}, {key: newKey()}));
    if (value) setQuery({run: value.id});
  };
  const chosen = query.job && job.data && String(job.data.id) === query.job ? job.data : null;
  return html`<div data-steps><p>${t("welcome.body")}</p><ol class="steps">
    <${Step} number="1" title=${t("welcome.executor")} isDone=${there.length > 0}><${Panel} of=${groups}>
      ${all.length > 0 && html`<label class="group-choice">${t("filter.group")}<select name="group" onChange=${(event) => setQuery({group: event.target.value})}>${all.map((one) => html`<option value=${one.id} selected=${one.id === group.id}>${one.title || one.app_name}</option>`)}</select></label>`}
      ${may("admin", null) && !all.length && html`<${GroupForm} done=${(made) => { groups.reload(); setQuery({group: made.id}); }} />`}
      ${!all.length && !may("admin", null) && html`<p class="empty">${t("welcome.noGroup")}</p>`}
      ${group && html`<${Panel} of=${health}><${Executor} key=${group.id} group=${group} executors=${there} port=${health.data?.executor_port ?? PORT} /><//>`}<//><//>
    <${Step} number="2" title=${t("welcome.job")} isDone=${Boolean(chosen)}>${chosen ? html`<p><a href="#/jobs/${chosen.id}"><bdi>${chosen.name}</bdi></a></p>` : group && may("edit", group.id) ? html`<${FirstJob} key=${group.id} group=${group} />` : html`<p class="faint">${t(group ? "welcome.mayNot" : "welcome.later")}</p>`}<//>
    <${Step} number="3" title=${t("welcome.run")} isDone=${runId !== null}>${chosen && may("run", chosen.group_id) && html`<p><${Act} run=${start} data-action="first-run">${runId ? t("action.rerun") : t("action.run")}<//></p>`}
      ${!chosen && html`<p class="faint">${t("welcome.later")}</p>`}${runId && html`<${FirstRun} key=${runId} id=${runId} />`}<//>
  </ol></div>`;
}

export default function Welcome({query}) {
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.welcome")}</h1></div><${Steps} query=${query} />`;
}
