// Somebody else changed the job meanwhile: both changes side by side, and a choice for each field. Nothing is lost.
import {html, useSignal} from "../../vendor/core.js";
import {t} from "../../i18n.js";
import {openDialog} from "../../components/dialog.js";
import {same} from "./values.js";
import {fieldLabel, fieldValue} from "./words.js";

/** The fields in which mine, theirs and what was before differ: {name, before, mine, theirs, isBoth}. */
export function differences(base, mine, theirs) {
  return Object.keys(base).filter((name) => !same(mine[name], base[name]) || !same(theirs[name], base[name]))
    .map((name) => ({name, before: base[name], mine: mine[name], theirs: theirs[name], isBoth: !same(mine[name], base[name]) && !same(theirs[name], base[name]) && !same(mine[name], theirs[name])}));
}

function Compare({items, theirs, close}) {
  // mine counts where only I changed something or both did; theirs where I did not
  const picked = useSignal(Object.fromEntries(items.map((item) => [item.name, same(item.mine, item.before) ? "theirs" : "mine"])));
  const pick = (name, side) => { picked.value = {...picked.value, [name]: side}; };
  const cell = (item, side) => html`<td class=${same(item[side], item.before) ? "" : "new"}><label class="inline"><input type="radio" name=${`pick-${item.name}`} value=${side} checked=${picked.value[item.name] === side} onChange=${() => pick(item.name, side)} />
    <span><span class="only-read">${t(`conflict.${side}`)}: </span>${fieldValue(item.name, item[side])}</span></label></td>`;
  const take = () => close(Object.fromEntries(items.map((item) => [item.name, item[picked.value[item.name]]])));
  return html`<div data-compare><p>${t("conflict.body", {revision: theirs.revision})}</p>
    <div class="table-frame"><table><thead><tr><th scope="col">${t("diff.field")}</th><th scope="col">${t("conflict.before")}</th><th scope="col">${t("conflict.theirs")}</th><th scope="col">${t("conflict.mine")}</th></tr></thead>
      <tbody>${items.map((item) => html`<tr key=${item.name} data-name=${item.name}><th scope="row">${fieldLabel(item.name)}${item.isBoth && html` <span class="badge busy">${t("conflict.both")}</span>`}</th><td>${fieldValue(item.name, item.before)}</td>${cell(item, "theirs")}${cell(item, "mine")}</tr>`)}</tbody></table></div>
    <footer><button type="button" class="secondary" onClick=${() => close()}>${t("action.cancel")}</button><button type="button" autofocus onClick=${take}>${t("conflict.take")}</button></footer></div>`;
}

/** Ask what shall count of each field; resolves with the values chosen, or undefined. */
export function resolveConflict(base, mine, theirs, job) {
  const items = differences(base, mine, theirs);
  if (!items.length) return Promise.resolve({});
  return openDialog((close) => html`<${Compare} items=${items} theirs=${job} close=${close} />`, {label: t("conflict.title", {name: job.name}), wide: true});
}
