// Tokens of services: for this API, or for XXL-JOB's calls of one group.
import {html, useSignal} from "../../vendor/core.js";
import {del, post} from "../../api.js";
import {dateTime, t} from "../../i18n.js";
import {may} from "../../store.js";
import {Menu, act, confirmed, openDialog} from "../../components/dialog.js";
import {Field, useForm} from "../../components/fields.js";
import {DialogForm, Grants, endOptions, givable, grantWords, showOnce, useGroups} from "../../components/forms.js";
import {Table, usePages} from "../../components/list.js";
import {Time} from "../../components/ui.js";

const LABELS = () => Object.fromEntries(["name", "group_id", "role", "script", "groups", "expires_in_s", "networks"].map((name) => [name, t(`token.field.${name}`)]));

export const showToken = (made) => showOnce({title: t("token.made", {name: made.name}), label: t("token.secret"), secret: made.token, words: t("token.once")});

function bodyOf(values, path) {
  const {purpose, role, script, groups, group_id: groupId, expires_in_s: ends, ...rest} = values;
  const rights = purpose === "roles" ? {role, script, groups} : purpose === "group" ? {group_id: Number(groupId)} : {};
  return {name: rest.name, networks: rest.networks.split(/[\s,]+/).filter(Boolean), expires_in_s: ends ? Number(ends) : null, ...(path === "me/tokens" && purpose === "roles" ? {role, script, groups} : rights)};
}

/** A new token; `path` is where it is made, and decides what it may be for. */
export function TokenForm({path, groups, close}) {
  const isOwn = path === "me/tokens";
  const mine = groups.filter((group) => may("admin", group.id));
  const purposes = isOwn ? [["all", t("token.purpose.own")], ["roles", t("token.purpose.roles")]]
    : [...(may("admin", null) ? [["all", t("token.purpose.all")]] : []), ["roles", t("token.purpose.roles")], ["group", t("token.purpose.group")]];
  const of = useForm({name: "", purpose: purposes[0][0], role: null, script: false, groups: [], group_id: mine[0]?.id ?? "", expires_in_s: "7776000", networks: ""});
  const {purpose, role, groups: some} = of.values.value;
  const isEmpty = purpose === "roles" && !role && !some.length;
  return html`<${DialogForm} of=${of} close=${close} save=${(values) => post(path, bodyOf(values, path))} labels=${LABELS()} action=${t("action.create")} isReady=${!isEmpty}>
    <${Field} of=${of} name="name" label=${t("token.field.name")} hint=${t("name.help")} maxlength="64" autocomplete="off" spellcheck="false" autofocus />
    <${Field} of=${of} name="purpose" kind="select" label=${t("token.field.purpose")} options=${purposes} hint=${t(`token.purposeHelp.${isOwn && purpose === "all" ? "own" : purpose}`)} />
    ${purpose === "roles" && html`<${Grants} of=${of} groups=${groups.filter((group) => givable(group.id).length)} />`}
    ${purpose === "group" && html`<${Field} of=${of} name="group_id" kind="select" label=${t("filter.group")} options=${mine.map((group) => [group.id, group.title])} />`}
    <${Field} of=${of} name="expires_in_s" kind="select" label=${t("token.field.expires_in_s")} options=${endOptions()} />
    <${Field} of=${of} name="networks" label=${t("token.field.networks")} hint=${t("token.networksHelp")} placeholder="10.1.0.0/16" spellcheck="false" /><//>`;
}

/** Make a token and show its secret once. */
export async function makeToken(path, groups) {
  const made = await openDialog((close) => html`<${TokenForm} path=${path} groups=${groups} close=${close} />`, {label: t("token.new"), wide: true});
  if (made) await showToken(made);
  return made;
}

async function remove(path, token) {
  const said = await confirmed({title: t("token.deleteTitle", {name: token.name}), body: html`<p>${t("token.deleteBody")}</p>`, action: t("action.delete"), isDangerous: true, asksReason: true, typed: token.name});
  return said && act(() => del(`${path}/${encodeURIComponent(token.name)}`, said), {done: t("token.deleted", {name: token.name})});
}

const rightsOf = (token, groups) => {
  if (token.group_id !== null) return t("token.ofGroup", {group: token.app_name ?? groups.nameOf(token.group_id)});
  if (token.role || token.groups.length) return grantWords(token, groups.nameOf);
  return t(token.account_id === null ? "token.everything" : "token.asAccount");
};

/** A list of tokens with what makes and deletes them; `path` is tokens or me/tokens. */
export function TokenList({path, canMake}) {
  const groups = useGroups(), turn = useSignal(0);
  const pages = usePages(path, {}, {});
  const columns = [
    {key: "name", label: t("token.field.name"), cell: (item) => html`<strong>${item.name}</strong>${item.account_name && path === "tokens" && html`<span class="under">${t("token.ofAccount", {name: item.account_name})}</span>`}`, csv: (item) => item.name},
    {key: "rights", label: t("account.roles"), cell: (item) => rightsOf(item, groups), csv: (item) => rightsOf(item, groups)},
    {key: "networks", label: t("token.field.networks"), optional: "on", cell: (item) => item.networks.join(", ") || html`<span class="faint">${t("token.anywhere")}</span>`, csv: (item) => item.networks.join(" ")},
    {key: "used", label: t("token.used"), cell: (item) => (item.used_ms === null ? html`<span class="faint">${t("token.unused")}</span>` : html`<${Time} ms=${item.used_ms} relative />`), csv: (item) => dateTime(item.used_ms)},
    {key: "ends", label: t("token.ends"), cell: (item) => (item.expires_ms === null ? html`<span class="faint">${t("ends.never")}</span>` : html`<${Time} ms=${item.expires_ms} />`), csv: (item) => dateTime(item.expires_ms)},
    {key: "created", label: t("account.created_ms"), optional: "off", cell: (item) => html`<${Time} ms=${item.created_ms} />`, csv: (item) => dateTime(item.created_ms)},
    {key: "actions", label: t("action.menu"), className: "tight", cell: (item) => html`<${Menu} label=${t("token.menu", {name: item.name})} items=${[{label: t("action.delete"), isDangerous: true, run: () => remove(path, item).then((gone) => gone && pages.load.reload())}]} />`},
  ];
  const make = async () => { if (await makeToken(path, groups.list)) { turn.value += 1; pages.load.reload(); } };
  return html`${canMake && html`<div class="page-head"><span class="actions"><button onClick=${make}>${t("token.new")}</button></span></div>`}
    <${Table} name=${path === "tokens" ? "tokens" : "own-tokens"} label=${t("access.tab.tokens")} pages=${pages} columns=${columns} idOf=${(item) => item.name} empty=${t("token.none")} />`;
}

export const Tokens = () => html`<p class="faint">${t("token.help")}</p><${TokenList} path="tokens" canMake=${may("admin")} />`;
