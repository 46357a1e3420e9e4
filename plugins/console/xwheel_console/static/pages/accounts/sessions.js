// Sessions of an account.
import {html} from "../../vendor/core.js";
import {t} from "../../i18n.js";
import {Act} from "../../components/dialog.js";
import {Time} from "../../components/ui.js";

/** A table of sessions; with `end(session)` each but the one that asks can be ended. */
export const SessionTable = ({items, end}) => html`<div class="table-frame"><table class="list" data-list="sessions" aria-label=${t("session.title")}>
  <thead><tr>${["begun", "seen", "ends", "address", "agent"].map((name) => html`<th scope="col">${t(`session.${name}`)}</th>`)}${end && html`<th scope="col">${t("action.menu")}</th>`}</tr></thead>
  <tbody>${items.map((item) => html`<tr key=${item.id} data-id=${item.id}>
    <td data-label=${t("session.begun")}><${Time} ms=${item.created_ms} />${item.is_this && html` <span class="badge calm">${t("session.this")}</span>`}</td>
    <td data-label=${t("session.seen")}><${Time} ms=${item.seen_ms} relative /></td><td data-label=${t("session.ends")}><${Time} ms=${item.expires_ms} relative /></td>
    <td data-label=${t("session.address")}>${item.address}</td><td data-label=${t("session.agent")}>${item.agent}</td>
    ${end && html`<td class="tight">${!item.is_this && html`<${Act} class="small secondary" run=${() => end(item)}>${t("session.end")}<//>`}</td>`}</tr>`)}</tbody></table></div>`;
