// Running a job with another parameter, on executors of choice, or later.
import {html, useRef} from "../vendor/core.js";
import {get, newKey, post} from "../api.js";
import {ago, dateTime, t, zoneShown} from "../i18n.js";
import {fromLocal, toLocal} from "../zones.js";
import {Field, useForm} from "./fields.js";
import {DialogForm} from "./forms.js";
import {Panel} from "./ui.js";
import {now, useLoad} from "../store.js";

const AHEAD_MS = 3_600_000;

/** The form that runs a job once. */
export function RunForm({job, close}) {
  const of = useForm({param: job.param ?? "", addresses: [], when: "now", at: null}), sent = useRef({});
  const executors = useLoad((abort) => get(`groups/${job.group_id}/executors`, {}, {abort}), [job.id]);
  const {addresses, when, at} = of.values.value;
  const run = (values) => {
    const body = {param: values.param, ...(values.addresses.length ? {addresses: values.addresses} : {}), ...(values.when === "at" ? {at: new Date(values.at).toISOString()} : {})};
    const text = JSON.stringify(body);
    // what was asked for once is not done twice; what was changed since is another wish
    if (sent.current.text !== text) sent.current = {text, key: newKey()};
    return post(`jobs/${job.id}/run`, body, {key: sent.current.key});
  };
  const done = (made) => (when === "at" ? t("run.plannedAt", {name: job.name, time: dateTime(made.due_ms)}) : t("run.planned", {name: job.name}));
  const pick = (next) => of.set({when: next, at: next === "at" ? at ?? Math.ceil((now.peek() + AHEAD_MS) / 60_000) * 60_000 : at});
  const toggle = (address) => of.set({addresses: addresses.includes(address) ? addresses.filter((one) => one !== address) : [...addresses, address]});
  return html`<${DialogForm} of=${of} close=${close} save=${run} done=${done} href=${(made) => `#/runs/${made.id}`} action=${t("action.run")} isReady=${when === "now" || at !== null} labels=${{param: t("job.param"), at: t("run.at"), addresses: t("run.where")}}>
    <${Field} of=${of} name="param" kind="textarea" label=${t("job.param")} autofocus />
    <${Field} of=${of} name="when" kind="select" label=${t("run.when")} options=${[["now", t("run.now")], ["at", t("run.later")]]} onChange=${pick} />
    ${when === "at" && html`<div class="field" data-field="at"><label>${t("run.at")}<input type="datetime-local" name="at" required value=${toLocal(at)} onChange=${(event) => of.set({at: fromLocal(event.target.value)})} /></label>
      <small>${t("form.inZone", {zone: zoneShown()})}${at !== null && html` · ${ago(at, now.value)}`}</small>${of.errors.value.at && html`<small class="field-error">${of.errors.value.at}</small>`}</div>`}
    <fieldset data-field="addresses"><legend>${t("run.where")}</legend><${Panel} of=${executors} isEmpty=${!executors.data?.items.length} empty=${t("run.noExecutors")}>
      ${executors.data?.items.map((item) => html`<label class="inline"><input type="checkbox" checked=${addresses.includes(item.address)} onChange=${() => toggle(item.address)} /> ${item.address}</label>`)}<//></fieldset><//>`;
}
