// Accounts: made, given rights, disabled, unlocked, given another password, signed out, deleted.
import {html, useSignal} from "../../vendor/core.js";
import {del, get, patch, post, session} from "../../api.js";
import {dateTime, has, t} from "../../i18n.js";
import {useLoad} from "../../store.js";
import {Act, Menu, act, confirmed, openDialog} from "../../components/dialog.js";
import {Field, useForm} from "../../components/fields.js";
import {DialogForm, Grants, grantWords, showOnce, useGroups} from "../../components/forms.js";
import {Table, usePages} from "../../components/list.js";
import {Badge, Panel, Time} from "../../components/ui.js";
import {SessionTable} from "./sessions.js";

const LABELS = () => Object.fromEntries(["name", "display_name", "role", "script", "groups", "password", "provider"].map((name) => [name, t(`account.field.${name}`)]));
const grantsOf = (account) => ({role: account?.role ?? null, script: account?.script ?? false, groups: (account?.groups ?? []).map((grant) => ({...grant}))});

/** What is said of a change of an account: `words`, and how many tokens that ended. */
export const withEnded = (words) => (value) => (value?.tokens_ended ? `${words}; ${t("account.tokensEnded", {count: value.tokens_ended})}` : words);

const showPassword = (account) => (account.password ? showOnce({title: t("account.passwordOf", {name: account.name}), label: t("account.field.password"), secret: account.password, words: t("account.passwordOnce")}) : null);

function AccountForm({account, groups, close}) {
  const of = useForm(account ? {display_name: account.display_name, ...grantsOf(account)} : {name: "", display_name: "", ...grantsOf(null)});
  const save = (values) => (account ? patch(`accounts/${account.id}`, values, {match: account.revision}) : post("accounts", values));
  return html`<${DialogForm} of=${of} close=${close} save=${save} labels=${LABELS()} action=${account ? t("action.save") : t("action.create")} done=${(made) => t(account ? "account.saved" : "account.created", {name: made.name})}>
    ${!account && html`<${Field} of=${of} name="name" label=${t("account.field.name")} maxlength="64" autocomplete="off" spellcheck="false" autofocus />`}
    <${Field} of=${of} name="display_name" label=${t("account.field.display_name")} maxlength="128" autocomplete="off" />
    <${Grants} of=${of} groups=${groups} />
    ${!account && html`<p class="faint">${t("account.passwordHelp")}</p>`}<//>`;
}

function Sessions({account}) {
  const load = useLoad((abort) => get(`accounts/${account.id}/sessions`, {}, {abort}), [account.id]);
  const keeps = useSignal(false);
  const end = () => act(() => del(`accounts/${account.id}/sessions`, {params: {keep_tokens: keeps.value || null}}), {done: withEnded(t("account.sessionsEnded", {name: account.name}))}).then(load.reload);
  return html`<${Panel} of=${load} isEmpty=${!load.data?.items.length} empty=${t("session.none")}><${SessionTable} items=${load.data?.items ?? []} />
    <label class="inline"><input type="checkbox" name="keep_tokens" checked=${keeps.value} onChange=${(event) => { keeps.value = event.target.checked; }} /> ${t("account.keepTokens")}</label>
    <footer><${Act} class="danger" run=${end}>${t("account.endSessions")}<//></footer><//>`;
}

const reset = async (account, reload) => {
  const said = await confirmed({title: t("account.resetTitle", {name: account.name}), body: html`<p>${t("account.resetBody")}</p>`, action: t("account.reset"), isDangerous: true, asksReason: true, offers: t("account.keepTokens")});
  if (!said) return;
  const {value} = await act(() => post(`accounts/${account.id}/reset`, said.isChecked ? {keep_tokens: true} : {}, said), {done: withEnded(t("account.resetDone", {name: account.name}))});
  reload();
  if (value) await showPassword(value);
};

const change = async (account, fields, words, reload, asks = null) => {
  const said = asks ? await confirmed(asks) : {};
  if (!said) return;
  // whatever else of the account was changed meanwhile does not matter here
  await act(() => patch(`accounts/${account.id}`, said.isChecked ? {...fields, keep_tokens: true} : fields, said), {done: withEnded(t(words, {name: account.name}))});
  reload();
};

const remove = async (account, reload) => {
  const said = await confirmed({title: t("account.deleteTitle", {name: account.name}), body: html`<p>${t("account.deleteBody")}</p>`, action: t("action.delete"), isDangerous: true, asksReason: true, typed: account.name});
  if (said) { await act(() => del(`accounts/${account.id}`, said), {done: t("account.deleted", {name: account.name})}); reload(); }
};

const link = async (account) => {
  const {value} = await act(() => post(`accounts/${account.id}/link`));
  if (value) await showOnce({title: t("account.linkOf", {name: account.name}), label: t("account.link"), secret: new URL(`#/login?link=${value.link_secret}`, document.baseURI).href, words: t("account.linkOnce", {until: dateTime(value.expires_ms)})});
};

function actions(account, {edit, reload}) {
  const isMe = account.id === session.value.account_id;
  const isLocal = account.provider === "local";
  return [
    {label: t("action.edit"), run: () => edit(account)},
    account.locked_ms !== null && {label: t("account.unlock"), run: () => change(account, {locked: false}, "account.unlocked", reload)},
    isLocal && !isMe && {label: t("account.reset"), run: () => reset(account, reload)},
    isLocal && !account.disabled && account.locked_ms === null && {label: t("account.makeLink"), run: () => link(account)},
    {label: t("account.sessions"), run: () => openDialog(() => html`<${Sessions} account=${account} />`, {label: t("account.sessionsOf", {name: account.name}), wide: true})},
    !isMe && (account.disabled ? {label: t("account.enable"), run: () => change(account, {disabled: false}, "account.enabled", reload)}
      : {label: t("account.disable"), run: () => change(account, {disabled: true}, "account.disabledDone", reload, {title: t("account.disableTitle", {name: account.name}), body: html`<p>${t("account.disableBody")}</p>`, action: t("account.disable"), asksReason: true, offers: t("account.keepTokens")})}),
    !isMe && {label: t("action.delete"), isDangerous: true, run: () => remove(account, reload)},
  ];
}

const State = ({account}) => (account.disabled ? html`<${Badge} state="stopped" words=${t("account.disabled")} />`
  : account.locked_ms !== null ? html`<${Badge} state="error" words=${t("account.locked")} /><span class="under"><${Time} ms=${account.locked_ms} /></span>`
    : html`<${Badge} state="ok" words=${t("account.active")} />${account.must_change && html`<span class="under">${t("account.mustChange")}</span>`}`);

export function Users() {
  const groups = useGroups();
  const pages = usePages("accounts", {}, {when: (event) => event.kind === "account"});
  const reload = pages.load.reload;
  const edit = async (account) => {
    const made = await openDialog((close) => html`<${AccountForm} account=${account} groups=${groups.list} close=${close} />`, {label: account ? t("account.edit", {name: account.name}) : t("account.new"), wide: true});
    if (!made) return;
    reload();
    if (!account) await showPassword(made);
  };
  const columns = [
    {key: "id", label: "ID", className: "tight number", optional: "off", cell: (item) => item.id, csv: (item) => item.id},
    {key: "name", label: t("account.field.name"), cell: (item) => html`<strong>${item.name}</strong>${item.display_name && html`<span class="under">${item.display_name}</span>`}`, csv: (item) => item.name},
    {key: "roles", label: t("account.roles"), cell: (item) => grantWords(item, groups.nameOf) || html`<span class="faint">${t("role.nothing")}</span>`, csv: (item) => grantWords(item, groups.nameOf)},
    {key: "state", label: t("filter.state"), className: "tight", cell: (item) => html`<${State} account=${item} />`, csv: (item) => (item.disabled ? "disabled" : item.locked_ms !== null ? "locked" : "active")},
    {key: "provider", label: t("account.field.provider"), optional: "off", cell: (item) => (has(`account.provider.${item.provider}`) ? t(`account.provider.${item.provider}`) : item.provider), csv: (item) => item.provider},
    {key: "seen", label: t("account.signedIn"), cell: (item) => html`<${Time} ms=${item.signed_in_ms} relative />`, csv: (item) => dateTime(item.signed_in_ms)},
    {key: "created", label: t("account.created_ms"), optional: "off", cell: (item) => html`<${Time} ms=${item.created_ms} />`, csv: (item) => dateTime(item.created_ms)},
    {key: "actions", label: t("action.menu"), className: "tight", cell: (item) => html`<${Menu} label=${t("account.menu", {name: item.name})} items=${actions(item, {edit, reload})} />`},
  ];
  return html`<div class="page-head"><span class="actions"><button onClick=${() => edit(null)}>${t("account.new")}</button></span></div>
    <${Table} name="accounts" label=${t("access.tab.users")} pages=${pages} columns=${columns} empty=${t("account.none")} rowKeys=${{e: edit}} />`;
}
