// P16: who did what, with what was before and after.
import {html} from "../vendor/core.js";
import {url} from "../api.js";
import {dateTime, has, t} from "../i18n.js";
import {link, place, setQuery} from "../router.js";
import {now} from "../store.js";
import {fromLocal, toLocal} from "../zones.js";
import {Diff, FieldDiff} from "../components/diff.js";
import {useEvery} from "../components/every.js";
import {useGroups} from "../components/forms.js";
import {Choice, Filters, Search, Table, usePages} from "../components/list.js";
import {Facts, Time} from "../components/ui.js";

const KINDS = ["account", "alarm", "alarm_rule", "calendar", "call", "declaration", "group", "job", "run", "schedule", "secret", "session", "token"];
const SINCE = {"1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000, "30d": 2_592_000_000};
const NAMES = ["actor", "action", "kind", "object", "outcome", "group", "since", "from", "to"];
const TONES = {done: "good", refused: "bad", failed: "busy"};
const ICONS = {done: "✓", refused: "⊘", failed: "✕"};

const BY_PEOPLE = new Set(["job", "group", "pause", "calendar", "rule", "account"]);
const EVERY_MS = 15_000;

const known = (key, code) => (has(key) ? t(key) : code);
const callerWords = (kind) => known(`audit.kindOf.${kind}`, kind);
const objectWords = (kind) => known(`audit.object.${kind}`, kind);
const actionWords = (action) => known(`action.${action}`, action);
const Outcome = ({of}) => html`<span class="badge ${TONES[of] ?? "calm"}" data-outcome=${of}><span aria-hidden="true">${ICONS[of] ?? "·"}</span> ${known(`audit.outcome.${of}`, of)}</span>`;

function whereOf(row) {
  if (row.object_kind === "job") return link(`/jobs/${row.object_id}`);
  if (row.object_kind === "run") return link(`/runs/${row.object_id}`);
  if (row.object_kind === "alarm_rule") return link("/alarms/rules", {rule: row.object_id});
  if (row.object_kind === "calendar") return link("/calendars", {name: row.object_id});
  return {group: link("/executors"), account: link("/accounts/users"), token: link("/accounts/tokens"), secret: link("/accounts/secrets")}[row.object_kind] ?? null;
}

const isLong = (value) => typeof value === "string" && value.includes("\n");
const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** What a row says of before and after: fields side by side, texts of many lines as a diff, anything else as JSON. */
function Change({detail}) {
  const {before, after, ...rest} = detail;
  const [old, next] = [isTable(before) ? before : {}, isTable(after) ? after : {}];
  const names = [...new Set([...Object.keys(old), ...Object.keys(next)])].sort();
  const long = names.filter((name) => isLong(old[name]) || isLong(next[name]));
  const short = names.filter((name) => !long.includes(name));
  return html`${short.length > 0 && html`<div class="table-frame"><${FieldDiff} items=${short.map((name) => [name, old[name], next[name]])} /></div>`}
    ${long.map((name) => html`<h3 key=${name}>${name}</h3><${Diff} one=${String(old[name] ?? "")} other=${String(next[name] ?? "")} label=${name} />`)}
    ${Object.keys(rest).length > 0 && html`<pre class="diff">${JSON.stringify(rest, null, 2)}</pre>`}
    ${!names.length && !Object.keys(rest).length && html`<p class="faint">${t("audit.noDetail")}</p>`}`;
}

const Detail = ({row, groupName}) => html`<div class="audit-detail" data-detail=${row.id}>
  <${Facts} items=${[
  [t("audit.reason"), row.reason], [t("audit.actorKind"), callerWords(row.actor_kind)], [t("audit.credential"), row.credential && html`<code>${row.credential}</code>`],
  [t("audit.address"), row.address], [t("audit.group"), groupName], [t("audit.row"), row.id], [t("audit.position"), row.position ?? t("audit.unsealed")],
]} /><${Change} detail=${row.detail} /></div>`;

const wholeMs = (text) => (/^\d{1,15}$/.test(text ?? "") ? Number(text) : undefined);
const wallOf = (text) => (wholeMs(text) === undefined ? "" : toLocal(wholeMs(text)));

/** The filters of the address as the API takes them. */
function paramsOf(query, nowMs) {
  const since = SINCE[query.since];
  return {
    actor: query.actor, action: query.action, object_kind: query.kind, object_id: query.kind ? query.object : undefined, outcome: query.outcome, group_id: query.group,
    // to the minute, so that a list is not asked for again each second
    from_ms: wholeMs(query.from) ?? (since ? Math.floor(nowMs / 60_000) * 60_000 - since : undefined), to_ms: wholeMs(query.to),
  };
}

const Moment = ({name, label}) => html`<label class="filter">${label}<input type="datetime-local" name=${name} value=${wallOf(place.value.query[name])} onChange=${(event) => setQuery({[name]: fromLocal(event.target.value) ?? undefined, ...(name === "from" ? {since: undefined} : {})})} /></label>`;

export default function Audit({query}) {
  const groups = useGroups();
  const params = paramsOf(query, now.value);
  // runs and alarms come by themselves; what people do besides comes with the next look
  const pages = usePages("audit", params, {when: (event) => BY_PEOPLE.has(event.kind), everyMs: 3000});
  useEvery(pages.load.reload, EVERY_MS);
  const toggle = (row) => setQuery({row: String(query.row) === String(row.id) ? undefined : row.id});
  const isOpen = (row) => String(query.row) === String(row.id);
  const columns = [
    {key: "open", label: t("audit.detail"), className: "tight", cell: (row) => html`<button type="button" class="link small" aria-expanded=${isOpen(row)} aria-label=${t("audit.open", {id: String(row.id)})} onClick=${() => toggle(row)}>${isOpen(row) ? "▾" : "▸"}</button>`},
    {key: "at", label: t("audit.at"), className: "tight number", cell: (row) => html`<${Time} ms=${row.at_ms} />`, csv: (row) => dateTime(row.at_ms)},
    {key: "actor", label: t("audit.actor"), cell: (row) => (row.actor ? html`${row.actor}<span class="under">${callerWords(row.actor_kind)}</span>` : callerWords(row.actor_kind)), csv: (row) => row.actor},
    {key: "action", label: t("audit.action"), cell: (row) => html`${actionWords(row.action)}<code class="under">${row.action}</code>`, csv: (row) => row.action},
    {key: "object", label: t("audit.object"), cell: (row) => { const href = whereOf(row), words = html`${objectWords(row.object_kind)} ${row.object_id}`; return href ? html`<a href=${href}>${words}</a>` : words; }, csv: (row) => `${row.object_kind} ${row.object_id}`},
    {key: "outcome", label: t("audit.outcome"), className: "tight", cell: (row) => html`<${Outcome} of=${row.outcome} />`, csv: (row) => row.outcome},
    {key: "reason", label: t("audit.reason"), optional: "on", className: "clip", cell: (row) => html`<span>${row.reason}</span>`, csv: (row) => row.reason},
    {key: "address", label: t("audit.address"), optional: "off", cell: (row) => row.address, csv: (row) => row.address},
  ];
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.audit")}</h1><span class="actions"><a role="button" class="secondary" href=${url("audit/csv", params).href} download="audit.csv">${t("audit.csv")}</a></span></div>
    <${Filters} names=${NAMES}>
      <${Search} name="actor" label=${t("audit.actor")} /><${Search} name="action" label=${t("audit.action")} placeholder="job.edit" />
      <${Choice} name="kind" label=${t("audit.object")} options=${KINDS.map((kind) => [kind, objectWords(kind)])} />
      ${query.kind && html`<${Search} name="object" label=${t("audit.objectId")} />`}
      <${Choice} name="outcome" label=${t("audit.outcome")} options=${Object.keys(TONES).map((outcome) => [outcome, t(`audit.outcome.${outcome}`)])} />
      <${Choice} name="group" label=${t("filter.group")} options=${groups.list.map((group) => [group.id, group.title])} />
      <${Choice} name="since" label=${t("audit.since")} options=${Object.keys(SINCE).map((key) => [key, t(`audit.since.${key}`)])} />
      <${Moment} name="from" label=${t("audit.from")} /><${Moment} name="to" label=${t("audit.to")} />
    <//>
    <${Table} name="audit" label=${t("nav.audit")} pages=${pages} columns=${columns} empty=${t("audit.none")}
      rowKeys=${{Enter: toggle}} detail=${(row) => (isOpen(row) ? html`<${Detail} row=${row} groupName=${groups.nameOf(row.group_id)} />` : null)} />`;
}
