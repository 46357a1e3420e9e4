// What each role may do.
import {html} from "../../vendor/core.js";
import {t} from "../../i18n.js";

const PERMISSIONS = ["read", "run", "edit", "script", "admin"];
const MATRIX = [["viewer", ["read"]], ["operator", ["read", "run"]], ["editor", ["read", "run", "edit"]], ["editorScript", ["read", "run", "edit", "script"]], ["admin", PERMISSIONS]];

export const Roles = () => html`<p>${t("role.help")}</p><div class="table-frame"><table class="matrix" data-list="roles" aria-label=${t("access.tab.roles")}>
  <thead><tr><th scope="col">${t("role.role")}</th>${PERMISSIONS.map((name) => html`<th scope="col">${t(`permission.${name}`)}</th>`)}</tr></thead>
  <tbody>${MATRIX.map(([role, allowed]) => html`<tr key=${role} data-role=${role}><th scope="row">${t(`role.${role}`)}</th>${PERMISSIONS.map((name) => html`<td data-permission=${name} data-allowed=${allowed.includes(name)}>${allowed.includes(name) ? html`<span aria-hidden="true">✓</span><span class="only-read">${t("word.yes")}</span>` : html`<span class="faint" aria-hidden="true">–</span><span class="only-read">${t("word.no")}</span>`}</td>`)}</tr>`)}</tbody></table></div>
  <dl class="entries">${PERMISSIONS.map((name) => html`<div key=${name}><dt>${t(`permission.${name}`)}</dt><dd>${t(`permission.help.${name}`)}</dd></div>`)}</dl>`;
