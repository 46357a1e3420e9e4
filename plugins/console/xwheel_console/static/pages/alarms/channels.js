// Alarm channels of this node: how they fare, their options, and a test that shows the real answer.
import {html, useSignal} from "../../vendor/core.js";
import {get, post} from "../../api.js";
import {duration, t} from "../../i18n.js";
import {may, useLoad} from "../../store.js";
import {act, openDialog} from "../../components/dialog.js";
import {Field, useForm} from "../../components/fields.js";
import {Badge, Failure, Panel} from "../../components/ui.js";
import {Attempt} from "./words.js";

/** Alarm channels of this node: {name, health, plugin, options}. */
export function useChannels() {
  const load = useLoad((abort) => get("plugins", {}, {abort}), []);
  const list = (load.data?.items ?? []).flatMap((plugin) => plugin.registers.filter((one) => one.kind === "alarm channel").map((one) => ({...one, plugin: plugin.name, options: plugin.options})));
  return {load, list};
}

const hintOf = (channel) => { const key = `alarm.receivers.${channel}`; return t(["email", "sms", "dingtalk", "wecom", "feishu", "slack", "telegram", "webhook"].includes(channel) ? key : "alarm.receivers.other"); };
/** Receivers as they are typed, one a line. */
export const splitReceivers = (text) => text.split(/\n/).map((line) => line.trim()).filter(Boolean);

/** Send a test now, and show what the other side said. */
function Test({channel, receivers = "", close}) {
  const of = useForm({receivers}), answer = useSignal(null), problem = useSignal(null), isBusy = useSignal(false);
  const send = async (event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    answer.value = problem.value = null;
    const {value, error} = await act(() => post("alarms/test", {channel, receivers: splitReceivers(of.values.value.receivers)}), {quiet: true});
    isBusy.value = false;
    if (value) answer.value = value;
    else if (!of.take(error)) problem.value = error;
  };
  return html`<form onSubmit=${send}>
    <${Field} of=${of} name="receivers" kind="textarea" rows="3" label=${t("alarm.receivers")} hint=${hintOf(channel)} autofocus />
    ${problem.value && html`<${Failure} error=${problem.value} />`}
    <div role="status" aria-live="polite">${answer.value && html`<div class=${answer.value.state === "sent" ? "card" : "failure"} data-answer=${answer.value.state}><p><${Attempt} of=${answer.value.state} /> ${t("alarm.tookTime", {time: duration(answer.value.took_ms)})}</p><p>${answer.value.answer || t("alarm.noAnswer")}</p></div>`}</div>
    <footer><button type="button" class="secondary" onClick=${() => close()}>${t("action.close")}</button><button type="submit" disabled=${isBusy.value} aria-busy=${isBusy.value || null}>${t("alarm.sendTest")}</button></footer></form>`;
}
export const openTest = (channel, receivers = "") => openDialog((close) => html`<${Test} channel=${channel} receivers=${receivers} close=${close} />`, {label: t("alarm.testTitle", {channel})});

const flat = (options, prefix = "") => Object.entries(options).flatMap(([key, value]) => (value !== null && typeof value === "object" && !Array.isArray(value) ? flat(value, `${prefix}${key}.`) : [[`${prefix}${key}`, Array.isArray(value) ? value.join(", ") : String(value ?? "")]]));

export function Channels({channels}) {
  return html`<section><h2>${t("alarm.channels")}</h2><${Panel} of=${channels.load} isEmpty=${!channels.list.length} empty=${t("alarm.noChannels")}>
    ${channels.list.map((channel) => html`<article class="card" key=${channel.name} data-channel=${channel.name}>
      <h3>${channel.name} ${channel.health && html`<${Badge} state=${channel.health.ok ? "ok" : "error"} />`}</h3>
      <p class="faint">${t("alarm.ofPlugin", {plugin: channel.plugin})}${channel.health?.last_answer ? html` · ${t("alarm.lastAnswer", {answer: channel.health.last_answer})}` : ""}</p>
      ${Object.keys(channel.options).length > 0 && html`<details><summary>${t("alarm.options")}</summary><dl class="entries">${flat(channel.options).map(([key, value]) => html`<div key=${key}><dt><code>${key}</code></dt><dd>${value}</dd></div>`)}</dl></details>`}
      ${may("edit") && html`<button class="small secondary" onClick=${() => openTest(channel.name)}>${t("alarm.sendTest")}</button>`}</article>`)}<//></section>`;
}
