// Whose packages are: the groups of a project are shown, chosen at an upload, and changed by those who may.
import {html, useSignal} from "../../vendor/core.js";
import {put} from "../../api.js";
import {t} from "../../i18n.js";
import {act, note, openDialog} from "../../components/dialog.js";
import {Failure} from "../../components/ui.js";

/** How all groups are named, those too that are made later. */
export const ALL = "*";
const wordsOf = (name) => (name === ALL ? t("packages.allGroups") : name);

/** The groups of a project that the reader may know of. */
export const Groups = ({of}) => (of.groups.length
  ? html`<span data-groups>${of.groups.map((name) => html`<span class="chip"><bdi>${wordsOf(name)}</bdi></span> `)}</span>`
  : html`<span class="faint" data-groups>${t("packages.noGroups")}</span>`);

/** Boxes for the groups that the reader may name; `value` is an array of names, and all groups stand alone. */
export function Choice({limits, value, onChange}) {
  const names = [...(limits.may_all_groups ? [ALL] : []), ...limits.groups];
  const toggle = (name, isOn) => onChange(name === ALL ? (isOn ? [ALL] : []) : isOn ? [...value.filter((one) => one !== ALL), name] : value.filter((one) => one !== name));
  return html`<fieldset data-choice="groups"><legend>${t("packages.groups")}</legend>${names.map((name) => html`<label class="inline"><input type="checkbox" name="group" value=${name} checked=${value.includes(name)} onChange=${(event) => toggle(name, event.target.checked)} /> <bdi>${wordsOf(name)}</bdi></label>`)}</fieldset>`;
}

/** Ask for the groups of a project; resolves with true if they were changed. */
export const askGroups = (project, limits) => openDialog((close) => html`<${Change} project=${project} limits=${limits} close=${close} />`, {label: t("packages.groupsOf", {name: project.project})});

function Change({project, limits, close}) {
  const chosen = useSignal(project.groups), isBusy = useSignal(false), problem = useSignal(null);
  const submit = async (event) => {
    event.preventDefault();
    isBusy.value = true;
    const {value, error} = await act(() => put(`packages/projects/${encodeURIComponent(project.project)}/groups`, {groups: chosen.value}), {quiet: true});
    isBusy.value = false;
    problem.value = error ?? null;
    if (!value) return;
    note(t("packages.groupsChanged", {name: project.project}));
    close(true);
  };
  return html`<form onSubmit=${submit} data-groups-of=${project.project}><p>${t("packages.groupsHelp")}</p>
    <${Choice} limits=${limits} value=${chosen.value} onChange=${(names) => { chosen.value = names; }} />
    ${problem.value && html`<${Failure} error=${problem.value} />`}
    <footer><button type="button" class="secondary" onClick=${() => close()}>${t("action.cancel")}</button><button type="submit" disabled=${!chosen.value.length || isBusy.value} aria-busy=${isBusy.value || null}>${t("action.save")}</button></footer></form>`;
}
