// Forms in dialogs, secrets that are shown once, and fields for who may do what.
import {html, useSignal} from "../vendor/core.js";
import {getAll, post, presence, session} from "../api.js";
import {byName, t} from "../i18n.js";
import {useLoad} from "../store.js";
import {act, openDialog, useAsked} from "./dialog.js";
import {Field, Summary, useForm} from "./fields.js";
import {Copy, Failure} from "./ui.js";

/**
 * A form in a dialog: it closes with what `save(values)` gave; until then what was typed stays.
 *
 * A refusal that names a field stands at that field, any other one above the buttons.
 */
export function DialogForm({of, close, save, action, done, href, labels, isReady = true, children}) {
  const problem = useSignal(null), isBusy = useSignal(false);
  useAsked(close, of.isChanged);
  const submit = async (event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    problem.value = null;
    const {value, error} = await act(() => save(of.values.value), {done, href, quiet: true});
    isBusy.value = false;
    if (!error) close(value ?? true);
    else if (!of.take(error)) problem.value = error;
  };
  return html`<form onSubmit=${submit} novalidate>
    <${Summary} of=${of} labels=${labels} />
    ${children}
    ${problem.value && html`<${Failure} error=${problem.value} />`}
    <footer><button type="button" class="secondary" onClick=${() => close()}>${t("action.cancel")}</button>
      <button type="submit" disabled=${!isReady || isBusy.value} aria-busy=${isBusy.value || null}>${action}</button></footer></form>`;
}

function PasswordForm({close}) {
  const of = useForm({password: ""});
  return html`<${DialogForm} of=${of} close=${close} save=${(values) => post("session/confirm", values)} labels=${{password: t("confirm.password")}} action=${t("confirm.action")} isReady=${of.values.value.password !== ""}>
    <p>${t("confirm.why")}</p>
    <${Field} of=${of} name="password" kind="password" label=${t("confirm.password")} maxlength="256" autocomplete="current-password" autofocus /><//>`;
}
presence.ask = () => (session.value?.asks_password ? openDialog((close) => html`<${PasswordForm} close=${close} />`, {label: t("confirm.title")}) : Promise.resolve(false));

/** Show something that no one can show again: a password, a token. */
export const showOnce = ({title, label, secret, words, more = null}) => openDialog((close) => html`<div class="once" ref=${() => { close.ask = () => ({title: t("dialog.once"), action: t("action.close"), keep: t("action.cancel")}); }}>
  <p>${words}</p>
  <label>${label}<input class="mono" readonly autofocus value=${secret} onFocus=${(event) => event.target.select()} data-once /></label>
  <${Copy} text=${secret} />
  ${more}
  <footer><button onClick=${() => close()}>${t("action.close")}</button></footer></div>`, {label: title});

/** All groups: {load, list, nameOf(id)}. */
export function useGroups() {
  const load = useLoad((abort) => getAll("groups", {}, 5000, {abort}), [], {when: (event) => event.kind === "group"});
  const list = [...(load.data ?? [])].sort((one, other) => byName(one.title, other.title));
  return {load, list, nameOf: (id) => (id === null || id === undefined ? null : list.find((one) => one.id === id)?.title ?? `#${id}`)};
}

export const ROLES = ["viewer", "operator", "editor", "admin"];

/** Roles that the caller may give: none above their own. */
export function givable(groupId) {
  const who = session.value;
  const mine = [who?.role, ...(groupId === null ? [] : who?.groups.filter((grant) => grant.group_id === groupId).map((grant) => grant.role) ?? [])];
  const most = Math.max(-1, ...mine.map((role) => ROLES.indexOf(role)));
  return ROLES.slice(0, most + 1);
}

const roleOptions = (roles) => roles.map((role) => [role, t(`role.${role}`)]);

function Choice({label, value, options, set, ...rest}) {
  return html`<label>${label}<select value=${value ?? ""} onChange=${(event) => set(event.target.value)} ...${rest}>${options.map(([key, words]) => html`<option value=${key} selected=${String(key) === String(value ?? "")}>${words}</option>`)}</select></label>`;
}

/** Fields `role`, `script` and `groups` of a form: a role in all groups, and roles in some. */
export function Grants({of, groups}) {
  const {role, script, groups: some} = of.values.value;
  const known = groups.filter((group) => givable(group.id).length);
  const change = (index, values) => of.set({groups: some.map((one, at) => (at === index ? {...one, ...values} : one))});
  const add = () => {
    const free = known.find((group) => !some.some((one) => one.group_id === group.id));
    if (free) of.set({groups: [...some, {group_id: free.id, role: givable(free.id)[0], script: false}]});
  };
  const inAll = givable(null);
  const tick = (checked, set) => html`<label class="inline"><input type="checkbox" checked=${checked} onChange=${(event) => set(event.target.checked)} /> ${t("role.script")}</label>`;
  return html`<fieldset class="grants" data-field="groups">
    <legend>${t("role.legend")}</legend>
    ${inAll.length > 0 && html`<div class="grant" data-field="role"><${Choice} label=${t("role.inAll")} value=${role} options=${[["", t("role.none")], ...roleOptions(inAll)]} set=${(next) => of.set({role: next || null, script: next === "editor" && script})} />
      ${role === "editor" && tick(script, (next) => of.set({script: next}))}</div>`}
    ${some.map((grant, index) => html`<div class="grant" key=${grant.group_id}>
      <${Choice} label=${t("role.group")} value=${grant.group_id} options=${known.filter((group) => group.id === grant.group_id || !some.some((one) => one.group_id === group.id)).map((group) => [group.id, group.title])} set=${(next) => change(index, {group_id: Number(next)})} />
      <${Choice} label=${t("role.role")} value=${grant.role} options=${roleOptions(givable(grant.group_id))} set=${(next) => change(index, {role: next, script: next === "editor" && grant.script})} />
      ${grant.role === "editor" && tick(grant.script, (next) => change(index, {script: next}))}
      <button type="button" class="link small" aria-label=${t("role.remove", {group: groups.find((one) => one.id === grant.group_id)?.title ?? grant.group_id})} onClick=${() => of.set({groups: some.filter((_, at) => at !== index)})}>✕</button></div>`)}
    ${some.length < known.length && html`<button type="button" class="small secondary" onClick=${add}>${t("role.add")}</button>`}
    ${["role", "groups", "script"].map((name) => of.errors.value[name] && html`<small class="field-error">${of.errors.value[name]}</small>`)}
  </fieldset>`;
}

/** Roles in words: "admin in all groups", "editor in Shop, with scripts". */
export function grantWords({role, script, groups}, nameOf) {
  const word = (one) => t(`role.${one.role}`) + (one.role === "editor" && one.script ? ` ${t("role.withScript")}` : "");
  const found = role ? [t("role.everywhere", {role: word({role, script})})] : [];
  for (const one of groups) found.push(t("role.there", {role: word(one), group: nameOf(one.group_id)}));
  return found.join(", ");
}

/** Numbers of seconds in words, for when something ends. */
export const ENDS = [["", "ends.never"], ["3600", "ends.hour"], ["86400", "ends.day"], ["604800", "ends.week"], ["2592000", "ends.month"], ["7776000", "ends.quarter"], ["31536000", "ends.year"]];
export const endOptions = (from = ENDS) => from.map(([value, key]) => [value, t(key)]);
