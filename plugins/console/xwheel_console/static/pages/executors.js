// P13: executor groups, the executors that are there, and addresses that a person entered.
import {html} from "../vendor/core.js";
import {del, getAll, patch, post} from "../api.js";
import {number, t} from "../i18n.js";
import {link} from "../router.js";
import {may, now, useLoad} from "../store.js";
import {Menu, act, confirmed, openDialog} from "../components/dialog.js";
import {Field, useForm} from "../components/fields.js";
import {DialogForm} from "../components/forms.js";
import {Filters, Search, Table, usePages} from "../components/list.js";
import {Facts, Time} from "../components/ui.js";

const LABELS = () => ({app_name: t("executor.appName"), title: t("executor.title"), max_running: t("executor.maxRunning"), addresses: t("executor.entered"), glue_types: t("executor.glueTypes")});
const isSuspect = (executor) => executor.suspect_until_ms > now.value;
const secretWords = (name) => (name === null ? t("executor.noSecret") : name === "shared" ? t("executor.sharedSecret") : name);

const showExecutor = (executor) => openDialog((close) => html`<div data-executor=${executor.id}>
  <${Facts} items=${[
  [t("executor.kind"), t(`executor.kind.${executor.kind}`)], [t("executor.generation"), number(executor.generation)],
  [t("executor.source"), t(`executor.source.${executor.source}`)], [t("executor.seen"), html`<${Time} ms=${executor.seen_ms} />`],
  [t("executor.secret"), secretWords(executor.secret)], [t("executor.earlierSecret"), executor.earlier_secret && secretWords(executor.earlier_secret)],
  [t("executor.release"), executor.release], [t("executor.declared"), executor.declared && html`<code>${executor.declared.slice(0, 12)}</code>`],
  [t("executor.instance"), executor.instance && html`<code>${executor.instance}</code>`], [t("executor.boot"), executor.boot && html`<code>${executor.boot}</code>`],
]} />
  ${Object.keys(executor.labels).length > 0 && html`<h3>${t("executor.labels")}</h3><p>${Object.entries(executor.labels).map(([name, value]) => html`<code class="chip">${name}=${value}</code> `)}</p>`}
  ${isSuspect(executor) && html`<p class="failure">${t("executor.suspect")} <${Time} ms=${executor.suspect_until_ms} /></p>`}
  <footer><a role="button" class="secondary" href=${link("/runs", {address: executor.address})} onClick=${() => close()}>${t("executor.runs")}</a><button autofocus onClick=${() => close()}>${t("action.close")}</button></footer></div>`, {label: executor.address});

function Chips({executors}) {
  if (!executors) return html`<span class="faint">…</span>`;
  if (!executors.length) return html`<span class="badge bad"><span aria-hidden="true">⚡</span> ${t("executor.none")}</span>`;
  return executors.map((executor) => html`<button type="button" key=${executor.id} class="chip ${isSuspect(executor) ? "busy" : "good"}" data-address=${executor.address} title=${isSuspect(executor) ? t("executor.suspectShort") : t("executor.online")} onClick=${() => showExecutor(executor)}><span aria-hidden="true">${isSuspect(executor) ? "!" : "●"}</span> ${executor.address}${isSuspect(executor) && html`<span class="only-read"> ${t("executor.suspectShort")}</span>`}</button> `);
}

const Entered = ({addresses}) => (addresses.length
  ? html`<ul class="plain">${addresses.map((item) => html`<li key=${item.address} data-entered=${item.address}><code>${item.address}</code> <span class="faint">${secretWords(item.secret)}</span> ${item.error ? html`<span class="field-error">✕ ${item.error}</span>` : item.live ? html`<span class="badge good"><span aria-hidden="true">●</span> ${t("state.up")}</span>` : html`<span class="badge calm">${t("executor.notAsked")}</span>`}</li>`)}</ul>`
  : html`<span class="faint">–</span>`);

const labelsOf = (executors) => [...new Set((executors ?? []).flatMap((executor) => Object.entries(executor.labels).map(([name, value]) => `${name}=${value}`)))].sort();

/** Rows of an address and the name of the secret that it is called with. */
function Addresses({of, secrets}) {
  const rows = of.values.value.addresses;
  const change = (index, values) => of.set({addresses: rows.map((row, at) => (at === index ? {...row, ...values} : row))});
  return html`<fieldset data-field="addresses"><legend>${t("executor.entered")}</legend>
    <p class="faint">${t("executor.enteredHelp")}</p>
    ${rows.map((row, index) => html`<div class="grant" key=${index}>
      <label>${t("executor.address")}<input name="address" value=${row.address} placeholder="http://10.0.0.5:9999" onInput=${(event) => change(index, {address: event.target.value})} /></label>
      <label>${t("executor.secret")}<select onChange=${(event) => change(index, {secret: event.target.value || null})}><option value="">${t("executor.noSecret")}</option>${[...new Set([...secrets, ...(row.secret ? [row.secret] : [])])].map((name) => html`<option value=${name} selected=${name === row.secret}>${name}</option>`)}</select></label>
      <button type="button" class="link small" aria-label=${t("executor.removeAddress", {address: row.address || index + 1})} onClick=${() => of.set({addresses: rows.filter((_, at) => at !== index)})}>✕</button></div>`)}
    <button type="button" class="small secondary" onClick=${() => of.set({addresses: [...rows, {address: "", secret: null}]})}>${t("executor.addAddress")}</button>
    ${of.errors.value.addresses && html`<small class="field-error">${of.errors.value.addresses}</small>`}
  </fieldset>`;
}

function GroupForm({group, secrets, close}) {
  const of = useForm(group
    ? {title: group.title, max_running: group.max_running, addresses: group.addresses.map(({address, secret}) => ({address, secret})), glue_types: group.glue_types.join(", ")}
    : {app_name: "", title: "", max_running: 0, addresses: [], glue_types: ""});
  const save = (values) => {
    const body = {...values, glue_types: values.glue_types.split(/[\s,]+/).filter(Boolean), addresses: values.addresses.filter((row) => row.address.trim()).map((row) => ({...row, address: row.address.trim()}))};
    return group ? patch(`groups/${group.id}`, body) : post("groups", body);
  };
  return html`<${DialogForm} of=${of} close=${close} save=${save} labels=${LABELS()} action=${group ? t("action.save") : t("action.create")} done=${(made) => t(group ? "executor.saved" : "executor.created", {name: made.title})}>
    ${group ? html`<p>${t("executor.appName")}: <code>${group.app_name}</code></p>`
    : html`<${Field} of=${of} name="app_name" label=${t("executor.appName")} hint=${t("executor.appNameHelp")} maxlength="64" autofocus autocomplete="off" spellcheck="false" />`}
    <${Field} of=${of} name="title" label=${t("executor.title")} hint=${t("executor.titleHelp")} maxlength="128" />
    <${Field} of=${of} name="max_running" kind="number" min="0" max="100000" label=${t("executor.maxRunning")} hint=${t("executor.maxRunningHelp")} />
    <${Field} of=${of} name="glue_types" label=${t("executor.glueTypes")} hint=${t("executor.glueTypesHelp")} />
    <${Addresses} of=${of} secrets=${secrets} /><//>`;
}

async function edit(group) {
  const secrets = group && may("admin", group.id) ? await getAll("secrets", {group_id: group.id}).then((items) => items.map((item) => item.name)).catch(() => []) : [];
  return openDialog((close) => html`<${GroupForm} group=${group} secrets=${secrets} close=${close} />`, {label: group ? t("executor.edit", {name: group.title}) : t("executor.new"), wide: true});
}

async function remove(group) {
  const said = await confirmed({title: t("executor.deleteTitle", {name: group.title}), body: html`<p>${t("executor.deleteBody")}</p>`, action: t("action.delete"), isDangerous: true, asksReason: true, typed: group.app_name});
  return said && act(() => del(`groups/${group.id}`, said), {done: t("executor.deleted", {name: group.title})});
}

export default function Executors({query}) {
  const when = (event) => event.kind === "group" || event.kind === "executor";
  const pages = usePages("groups", {app_name: query.q}, {when});
  const live = useLoad((abort) => getAll("executors", {}, 5000, {abort}), [], {when});
  const of = (group) => live.data?.filter((executor) => executor.group_id === group.id);
  const columns = [
    {key: "id", label: "ID", className: "tight number", cell: (item) => item.id, csv: (item) => item.id, optional: "off"},
    {key: "name", label: t("executor.group"), cell: (item) => html`<strong>${item.title}</strong><code class="under">${item.app_name}</code>`, csv: (item) => item.app_name},
    {key: "executors", label: t("executor.online"), cell: (item) => html`<${Chips} executors=${of(item)} />`, csv: (item) => (of(item) ?? []).map((one) => one.address).join(" ")},
    {key: "entered", label: t("executor.entered"), optional: "on", cell: (item) => html`<${Entered} addresses=${item.addresses} />`, csv: (item) => item.addresses.map((one) => one.address).join(" ")},
    {key: "labels", label: t("executor.labels"), optional: "on", cell: (item) => labelsOf(of(item)).map((text) => html`<code class="chip">${text}</code> `), csv: (item) => labelsOf(of(item)).join(" ")},
    {key: "max", label: t("executor.maxRunning"), className: "right", optional: "on", cell: (item) => (item.max_running ? number(item.max_running) : html`<span class="faint">${t("executor.noLimit")}</span>`), csv: (item) => item.max_running},
    {key: "glue", label: t("executor.glueTypes"), optional: "off", cell: (item) => item.glue_types.join(", "), csv: (item) => item.glue_types.join(" ")},
    {key: "updated", label: t("executor.updated"), optional: "off", cell: (item) => html`<${Time} ms=${item.updated_ms} />`, csv: (item) => item.updated_ms},
    {key: "actions", label: t("action.menu"), className: "tight", cell: (item) => html`<a class="small" href=${link("/jobs", {group: item.id})}>${t("nav.jobs")}</a> <${Menu} label=${t("executor.menu", {name: item.title})} items=${[
      may("admin", item.id) && {label: t("action.edit"), run: () => edit(item).then((made) => made && pages.load.reload())},
      may("admin", item.id) && {label: t("nav.secrets"), href: link("/accounts/secrets", {group: item.id})},
      may("admin", item.id) && {label: t("action.delete"), isDangerous: true, run: () => remove(item).then((gone) => gone && pages.load.reload())},
    ]} />`},
  ];
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.executors")}</h1><span class="actions">${may("admin", null) && html`<button onClick=${() => edit(null).then((made) => made && pages.load.reload())}>${t("executor.new")}</button>`}</span></div>
    <${Filters} names=${["q"]}><${Search} label=${t("executor.appName")} /><//>
    <${Table} name="groups" label=${t("nav.executors")} pages=${pages} columns=${columns} empty=${query.q ? t("executor.noneFound") : t("executor.noGroups")}
      rowKeys=${{e: (item) => (may("admin", item.id) ? edit(item).then((made) => made && pages.load.reload()) : false)}} />`;
}
