// P20: what a person likes, their password, sessions, tokens and saved views.
import {html, useSignal} from "../vendor/core.js";
import {del, get, put, session} from "../api.js";
import {LANGUAGES, language, t} from "../i18n.js";
import {link} from "../router.js";
import {may, prefer, preferences, saveViews, useLoad, views} from "../store.js";
import {act, confirmed, openDialog} from "../components/dialog.js";
import {Field, Summary, useForm} from "../components/fields.js";
import {DialogForm, grantWords, useGroups} from "../components/forms.js";
import {Facts, Failure, Panel} from "../components/ui.js";
import {SessionTable} from "./accounts/sessions.js";
import {TokenList} from "./accounts/tokens.js";
import {withEnded} from "./accounts/users.js";

const LANDING = [["/jobs", "jobs"], ["/", "dashboard"], ["/runs", "runs"], ["/nodes", "nodes"], ["/executors", "executors"], ["/alarms", "alarms"], ["/wall", "wall"]];
const THEMES = ["auto", "light", "dark"];

function Likes() {
  const of = preferences.value;
  const pick = (name, label, options, value = of[name]) => html`<label>${label}<select name=${name} onChange=${(event) => prefer({[name]: event.target.value})}>${options.map(([key, words]) => html`<option value=${key} selected=${key === value}>${words}</option>`)}</select></label>`;
  const zones = [["browser", t("me.zone.browser", {zone: Intl.DateTimeFormat().resolvedOptions().timeZone})], ["server", t("me.zone.server")], ...Intl.supportedValuesOf("timeZone").map((name) => [name, name])];
  return html`<section class="card" data-section="likes"><h2>${t("me.likes")}</h2>
    ${pick("language", t("login.language"), Object.entries(LANGUAGES), language.value)}
    ${pick("zone", t("me.zone"), zones)}
    ${pick("theme", t("me.theme"), THEMES.map((name) => [name, t(`theme.${name}`)]))}
    ${pick("landing", t("me.landing"), LANDING.map(([path, name]) => [path, t(`nav.${name}`)]))}
    <label class="inline"><input type="checkbox" name="keys" checked=${of.keys} onChange=${(event) => prefer({keys: event.target.checked})} /> ${t("keys.on")}</label></section>`;
}

const PASSWORD = () => ({old_password: "", password: "", again: "", keep_tokens: false});

function Password() {
  const of = useForm(PASSWORD()), problem = useSignal(null), isBusy = useSignal(false);
  const labels = {old_password: t("me.oldPassword"), password: t("me.newPassword"), again: t("me.again"), keep_tokens: t("me.keepTokens")};
  const submit = async (event) => {
    event.preventDefault();
    if (isBusy.value) return;
    problem.value = null;
    const {again, ...body} = of.values.value;
    if (again !== body.password) { of.errors.value = {again: t("me.notTheSame")}; return; }
    isBusy.value = true;
    const {error} = await act(() => put("me/password", body), {done: withEnded(t("me.passwordChanged")), quiet: true});
    isBusy.value = false;
    if (error) { if (!of.take(error)) problem.value = error; return; }
    of.reset(PASSWORD());
    session.value = await get("session");
  };
  const field = (name, complete) => html`<${Field} of=${of} name=${name} kind="password" label=${labels[name]} autocomplete=${complete} required />`;
  return html`<section class="card" data-section="password"><h2>${t("me.password")}</h2>${session.value.must_change && html`<p class="failure" role="alert">${t("banner.password")}</p>`}
    <form onSubmit=${submit}><${Summary} of=${of} labels=${labels} />
      <input type="text" hidden autocomplete="username" value=${session.value.name} readonly />
      ${field("old_password", "current-password")}${field("password", "new-password")}${field("again", "new-password")}
      <p class="faint">${t("me.passwordHelp")}</p>
      ${!session.value.must_change && html`<${Field} of=${of} name="keep_tokens" kind="checkbox" label=${labels.keep_tokens} />`}
      ${problem.value && html`<${Failure} error=${problem.value} />`}
      <button type="submit" disabled=${isBusy.value} aria-busy=${isBusy.value || null}>${t("me.changePassword")}</button></form></section>`;
}

function Sessions() {
  const load = useLoad((abort) => get("me/sessions", {}, {abort}), []);
  const end = async (item) => { await act(() => del(`me/sessions/${item.id}`), {done: t("session.ended")}); await load.reload(); };
  return html`<section class="card" data-section="sessions"><h2>${t("session.title")}</h2><${Panel} of=${load}><${SessionTable} items=${load.data?.items ?? []} end=${end} /><//></section>`;
}

function Rename({view, close}) {
  const of = useForm({name: view.name});
  const save = ({name}) => saveViews(views.value.map((one) => (one === view ? {...view, name: name.trim()} : one)));
  return html`<${DialogForm} of=${of} close=${close} save=${save} action=${t("action.save")} isReady=${Boolean(of.values.value.name.trim())}><${Field} of=${of} name="name" label=${t("views.name")} maxlength="60" autofocus /><//>`;
}

function Views() {
  const remove = async (view) => {
    const said = await confirmed({title: t("views.delete", {name: view.name}), action: t("action.delete"), isDangerous: true});
    if (said) await act(() => saveViews(views.value.filter((one) => one !== view)));
  };
  return html`<section class="card" data-section="views"><h2>${t("views.label")}</h2>${!views.value.length ? html`<p class="faint">${t("me.noViews")}</p>`
    : html`<div class="table-frame"><table class="list" data-list="views" aria-label=${t("views.label")}><thead><tr><th scope="col">${t("views.name")}</th><th scope="col">${t("me.viewOf")}</th><th scope="col">${t("action.menu")}</th></tr></thead>
      <tbody>${views.value.map((view) => html`<tr key=${`${view.path} ${view.name}`}><td data-label=${t("views.name")}><a href=${link(view.path, view.query)}>${view.name}</a></td><td data-label=${t("me.viewOf")}><code>${view.path}</code></td>
        <td class="tight"><button class="small secondary" onClick=${() => openDialog((close) => html`<${Rename} view=${view} close=${close} />`, {label: t("me.renameView", {name: view.name})})}>${t("me.rename")}</button> <button class="small secondary" onClick=${() => remove(view)}>${t("action.delete")}</button></td></tr>`)}</tbody></table></div>`}</section>`;
}

function Rights() {
  const groups = useGroups(), who = session.value;
  return html`<${Facts} items=${[[t("account.field.name"), who.name], [t("account.field.display_name"), who.display_name], [t("account.roles"), grantWords(who, groups.nameOf) || t("role.nothing")]]} />`;
}

export default function Me() {
  const who = session.value;
  const head = html`<div class="page-head"><h1 tabindex="-1">${t("nav.me")}</h1></div>`;
  // until the first password is changed the node answers nothing else
  if (who.must_change) return html`${head}<div class="columns"><${Password} /><${Likes} /></div>`;
  const isAccount = who.account_id !== null;
  return html`${head}<${Rights} />
    <div class="columns"><${Likes} />${isAccount && html`<${Password} />`}</div>
    ${isAccount && html`<section class="card" data-section="tokens"><h2>${t("me.tokens")}</h2><p class="faint">${t("me.tokensHelp")}</p><${TokenList} path="me/tokens" canMake=${may("read")} /></section>`}
    ${isAccount && html`<${Views} /><${Sessions} />`}`;
}
