// Secrets of executors: made, let end, followed by the next one.
import {html} from "../../vendor/core.js";
import {del, patch, post} from "../../api.js";
import {dateTime, number, t} from "../../i18n.js";
import {may} from "../../store.js";
import {Menu, act, confirmed, openDialog} from "../../components/dialog.js";
import {Field, useForm} from "../../components/fields.js";
import {DialogForm, ENDS, endOptions, showOnce, useGroups} from "../../components/forms.js";
import {Choice, Filters, Table, usePages} from "../../components/list.js";
import {Time} from "../../components/ui.js";

const LABELS = () => ({name: t("secret.name"), group_id: t("filter.group"), expires_in_s: t("token.field.expires_in_s")});
const NOW = ["0", "ends.now"];

const showSecret = (made) => showOnce({title: t("secret.made", {name: made.name}), label: t("secret.value"), secret: made.secret, words: t("secret.once")});

function Make({groups, groupId, close}) {
  const of = useForm({name: "", group_id: groupId ?? groups[0]?.id ?? ""});
  return html`<${DialogForm} of=${of} close=${close} save=${(values) => post("secrets", {name: values.name, group_id: Number(values.group_id)})} labels=${LABELS()} action=${t("action.create")} isReady=${groups.length > 0}>
    <${Field} of=${of} name="name" label=${t("secret.name")} hint=${t("name.help")} maxlength="64" autocomplete="off" spellcheck="false" autofocus />
    <${Field} of=${of} name="group_id" kind="select" label=${t("filter.group")} options=${groups.map((group) => [group.id, group.title])} /><//>`;
}

function Rotate({secret, close}) {
  const of = useForm({name: "", expires_in_s: "86400"});
  return html`<${DialogForm} of=${of} close=${close} save=${(values) => post(`secrets/${encodeURIComponent(secret.name)}/rotate`, {name: values.name, expires_in_s: Number(values.expires_in_s)})} labels=${LABELS()} action=${t("secret.rotate")}>
    <p>${t("secret.rotateHelp")}</p>
    <${Field} of=${of} name="name" label=${t("secret.nextName")} hint=${t("name.help")} maxlength="64" autocomplete="off" spellcheck="false" autofocus />
    <${Field} of=${of} name="expires_in_s" kind="select" label=${t("secret.oldEnds", {name: secret.name})} options=${endOptions([NOW, ...ENDS.slice(1)])} /><//>`;
}

function End({secret, close}) {
  const of = useForm({expires_in_s: "86400"});
  return html`<${DialogForm} of=${of} close=${close} save=${(values) => patch(`secrets/${encodeURIComponent(secret.name)}`, {expires_in_s: values.expires_in_s === "" ? null : Number(values.expires_in_s)})} labels=${LABELS()} action=${t("action.save")} done=${t("secret.endSet", {name: secret.name})}>
    <${Field} of=${of} name="expires_in_s" kind="select" label=${t("token.field.expires_in_s")} options=${endOptions([NOW, ...ENDS])} autofocus /><//>`;
}

async function remove(secret) {
  const said = await confirmed({title: t("secret.deleteTitle", {name: secret.name}), body: html`<p>${t("secret.deleteBody", {count: secret.executors})}</p>`, action: t("action.delete"), isDangerous: true, asksReason: true, typed: secret.name});
  return said && act(() => del(`secrets/${encodeURIComponent(secret.name)}`, said), {done: t("secret.deleted", {name: secret.name})});
}

export function Secrets({query}) {
  const groups = useGroups();
  const mine = groups.list.filter((group) => may("admin", group.id));
  const pages = usePages("secrets", {group_id: query.group}, {when: (event) => event.kind === "executor" || event.kind === "group"});
  const reload = pages.load.reload;
  const ask = async (form, label) => {
    const made = await openDialog(form, {label});
    if (!made) return;
    reload();
    if (made.secret) await showSecret(made);
  };
  const columns = [
    {key: "name", label: t("secret.name"), cell: (item) => html`<strong>${item.name}</strong>`, csv: (item) => item.name},
    {key: "group", label: t("filter.group"), cell: (item) => html`${groups.nameOf(item.group_id)}<code class="under">${item.app_name}</code>`, csv: (item) => item.app_name},
    {key: "executors", label: t("secret.executors"), className: "tight right", cell: (item) => number(item.executors), csv: (item) => item.executors},
    {key: "ends", label: t("token.ends"), cell: (item) => (item.expires_ms === null ? html`<span class="faint">${t("ends.never")}</span>` : html`<${Time} ms=${item.expires_ms} />`), csv: (item) => dateTime(item.expires_ms)},
    {key: "encrypted", label: t("secret.encrypted"), optional: "on", cell: (item) => t(item.encrypted ? "word.yes" : "word.no"), csv: (item) => item.encrypted},
    {key: "created", label: t("account.created_ms"), optional: "on", cell: (item) => html`<${Time} ms=${item.created_ms} />`, csv: (item) => dateTime(item.created_ms)},
    {key: "actions", label: t("action.menu"), className: "tight", cell: (item) => html`<${Menu} label=${t("secret.menu", {name: item.name})} items=${may("admin", item.group_id) ? [
      {label: t("secret.rotate"), run: () => ask((close) => html`<${Rotate} secret=${item} close=${close} />`, t("secret.rotateTitle", {name: item.name}))},
      {label: t("secret.setEnd"), run: () => ask((close) => html`<${End} secret=${item} close=${close} />`, t("secret.endTitle", {name: item.name}))},
      {label: t("action.delete"), isDangerous: true, run: () => remove(item).then((gone) => gone && reload())},
    ] : []} />`},
  ];
  return html`<p class="faint">${t("secret.help")}</p>
    <div class="page-head"><${Filters} names=${["group"]}><${Choice} name="group" label=${t("filter.group")} options=${groups.list.map((group) => [group.id, group.title])} /><//>
      <span class="actions">${mine.length > 0 && html`<button onClick=${() => ask((close) => html`<${Make} groups=${mine} groupId=${query.group ? Number(query.group) : null} close=${close} />`, t("secret.new"))}>${t("secret.new")}</button>`}</span></div>
    <${Table} name="secrets" label=${t("access.tab.secrets")} pages=${pages} columns=${columns} idOf=${(item) => item.name} empty=${t("secret.none")} />`;
}
