// Lists: pages of the server, filters in the address, choice of columns, selection with batch actions, keys.
import {html, useEffect, useRef, useSignal} from "../vendor/core.js";
import {get} from "../api.js";
import {number, t} from "../i18n.js";
import {useKeys} from "../keys.js";
import {link, place, setQuery} from "../router.js";
import {prefer, preferences, saveViews, useLoad, views} from "../store.js";
import {act, Menu, openDialog} from "./dialog.js";
import {Panel, Time, saveAs, toCsv} from "./ui.js";

/** Pages that are asked for again when something changed; what a person added beyond them stays as it was. */
const FRESH = 4;

/** Old rows behind the last of the new ones, or null where that is not among them: then the list begins again. */
function behind(old, fresh) {
  if (!fresh.length) return old;
  const keyOf = (item) => item.id ?? item.number ?? item.revision ?? {}, known = new Set(fresh.map(keyOf));
  const last = old.findIndex((item) => keyOf(item) === keyOf(fresh.at(-1)));
  return last < 0 ? null : old.slice(last + 1).filter((item) => !known.has(keyOf(item)));
}

/**
 * A list of the API, page by page: {items, hasMore, more, load, isMoreLoading}. `params` are its filters.
 *
 * Pages that were added stay when the list is loaded again. A page may be short or empty while the list goes on: what no
 * index answers is looked for in a bounded number of rows, and `looked` says back to where.
 */
export function usePages(path, params, {when, limit = 50, everyMs} = {}) {
  const count = useRef(1), isBusy = useSignal(false);
  const key = JSON.stringify(params);
  const fetch = async (abort, pages, after) => {
    let items = [], next = after, looked = null;
    for (let page = 0; page < pages; page += 1) {
      const found = await get(path, {...params, limit, after: next}, {abort});
      items = items.concat(found.items);
      next = found.next;
      looked = found.looked_ms ?? looked;
      if (next === null) break;
    }
    return {items, next, looked};
  };
  const shown = useRef(null);
  const load = useLoad(async (abort) => {
    const old = shown.current, found = await fetch(abort, Math.min(count.current, FRESH));
    if (count.current <= FRESH || found.next === null || !old) return found;
    const tail = behind(old.items, found.items);
    if (tail) return {...old, items: found.items.concat(tail)};
    count.current = FRESH;
    return found;
  }, [path, key], {when, everyMs});
  shown.current = load.data;
  const first = useRef(key);
  if (first.current !== key) { first.current = key; count.current = 1; }
  const more = async () => {
    if (!load.data || load.data.next === null || isBusy.value) return;
    isBusy.value = true;
    try {
      const found = await fetch(undefined, 1, load.data.next);
      count.current += 1;
      load.set({...found, items: load.data.items.concat(found.items)});
    } finally { isBusy.value = false; }
  };
  return {load, items: load.data?.items ?? [], hasMore: load.data?.next != null, looked: load.data?.looked ?? null, more, isMoreLoading: isBusy.value};
}

/** Between letters: the first after a pause is looked for at once, others when what is typed rests. */
const REST_MS = 50, FIRST_MS = 150;

/** A field of a filter strip that is typed; the address follows. */
export function Search({name = "q", label, ...rest}) {
  const shown = place.value.query[name] ?? "";
  const text = useSignal(shown), known = useRef(shown), wait = useRef({timer: null, lastMs: 0});
  // from the event itself: an effect would wait for the letter to be painted
  const type = (event) => {
    const typed = text.value = event.target.value, of = wait.current, isFirst = event.timeStamp - of.lastMs > FIRST_MS;
    of.lastMs = event.timeStamp;
    clearTimeout(of.timer);
    of.timer = setTimeout(() => { known.current = typed; setQuery({[name]: typed}); }, isFirst ? 0 : REST_MS);
  };
  useEffect(() => { if (shown !== known.current) { clearTimeout(wait.current.timer); known.current = shown; text.value = shown; } }, [shown]);
  useEffect(() => () => clearTimeout(wait.current.timer), []);
  return html`<label class="filter">${label}<input type="search" name=${name} value=${text.value} onInput=${type} ...${rest} /></label>`;
}

/** A choice of a filter strip: options are [[value, words]]. */
export const Choice = ({name, label, options}) => html`<label class="filter">${label}<select name=${name} onChange=${(event) => setQuery({[name]: event.target.value})}>
  <option value="">${t("filter.any")}</option>${options.map(([value, words]) => html`<option value=${value} selected=${place.value.query[name] === String(value)}>${words}</option>`)}</select></label>`;

/** The strip above a list: its filters, what clears them, and views that are kept under a name. */
export function Filters({children, names}) {
  const {path, query} = place.value;
  const isSet = names.some((name) => query[name]);
  const mine = views.value.filter((view) => view.path === path);
  const keep = () => openDialog((close) => html`<${ViewName} close=${close} />`, {label: t("views.save")}).then((name) => {
    if (name) act(() => saveViews([...views.value.filter((view) => view.name !== name || view.path !== path), {name, path, query}]), {done: t("views.saved", {name})});
  });
  return html`<form class="filters" role="search" aria-label=${t("filter.label")} onSubmit=${(event) => event.preventDefault()}>
    ${children}
    <span class="filter-end">
      ${isSet && html`<button type="button" class="link small" onClick=${() => setQuery(Object.fromEntries(names.map((name) => [name, undefined])))}>${t("filter.clear")}</button>`}
      <${Menu} label=${t("views.label")} items=${[
  ...mine.map((view) => ({label: view.name, href: link(view.path, view.query)})),
  {label: t("views.save"), run: keep},
  ...mine.map((view) => ({label: t("views.delete", {name: view.name}), isDangerous: true, run: () => act(() => saveViews(views.value.filter((one) => one !== view)))})),
]}>☆<//>
    </span>
  </form>`;
}
function ViewName({close}) {
  const name = useSignal("");
  return html`<form onSubmit=${(event) => { event.preventDefault(); if (name.value.trim()) close(name.value.trim()); }}>
    <label>${t("views.name")}<input name="view" maxlength="60" autofocus value=${name.value} onInput=${(event) => { name.value = event.target.value; }} /></label>
    <footer><button type="button" class="secondary" onClick=${() => close()}>${t("action.cancel")}</button><button type="submit" disabled=${!name.value.trim()}>${t("action.save")}</button></footer></form>`;
}

/**
 * A table.
 *
 * `columns`: {key, label, cell(item), csv(item), optional, className}. `batch(items, clear)` gives what can be done with
 * the chosen rows; `rowKeys` maps keys to (item) => …; `rowHref(item)` is where Enter goes; `idOf(item)` its key.
 * `detail(item)` gives what stands below a row that is open, or null.
 */
export function Table({name, label, pages, columns, batch, rowHref, rowKeys = {}, idOf = (item) => item.id, detail, empty}) {
  const {load, items, hasMore, looked, more, isMoreLoading} = pages;
  const chosen = useSignal(new Set()), at = useSignal(-1), ref = useRef(null);
  const hidden = new Set(preferences.value.columns?.[name] ?? columns.filter((column) => column.optional === "off").map((column) => column.key));
  const shown = columns.filter((column) => !hidden.has(column.key));
  const found = items.filter((item) => chosen.value.has(idOf(item)));
  const clear = () => { chosen.value = new Set(); };
  const toggle = (item) => { const next = new Set(chosen.value); if (!next.delete(idOf(item))) next.add(idOf(item)); chosen.value = next; };
  const focus = (index) => {
    const to = Math.max(0, Math.min(items.length - 1, index));
    at.value = to;
    ref.current?.querySelectorAll("tbody tr[data-id]")[to]?.focus();
  };
  const here = () => items[at.value];
  const onRow = (run) => () => { const item = here(); if (!item) return false; return run(item); };
  useKeys({
    j: () => focus(at.value + 1), ArrowDown: (event) => (at.value < 0 && event.target === document.body ? false : focus(at.value + 1)),
    k: () => focus(at.value - 1), ArrowUp: (event) => (at.value < 0 ? false : (event, focus(at.value - 1))),
    ...(batch ? {x: onRow(toggle)} : {}),
    ...(rowHref ? {Enter: onRow((item) => { location.hash = rowHref(item); })} : {}),
    ".": () => { const row = ref.current?.querySelectorAll("tbody tr[data-id]")[at.value]; const button = row?.querySelector(".menu-button"); if (!button) return false; button.click(); return true; },
    ...Object.fromEntries(Object.entries(rowKeys).map(([key, run]) => [key, onRow(run)])),
  });
  const setColumns = (key) => { const next = new Set(hidden); if (!next.delete(key)) next.add(key); prefer({columns: {...preferences.value.columns, [name]: [...next]}}); };
  const csv = () => {
    const rows = found.length ? found : items;
    const wanted = shown.filter((column) => column.csv);
    saveAs(`${name}.csv`, toCsv(wanted.map((column) => column.label), rows.map((item) => wanted.map((column) => column.csv(item)))), "text/csv;charset=utf-8");
  };
  const all = items.length > 0 && found.length === items.length;
  const optional = columns.filter((column) => column.optional);
  return html`<${Panel} of=${load} isEmpty=${!items.length && !hasMore} empty=${empty} label=${label}>
    <div class="table-frame" ref=${ref}>
    <table class="list" data-list=${name} aria-label=${label}>
      <thead><tr>
        ${batch && html`<th class="choose"><input type="checkbox" aria-label=${t("list.chooseAll")} checked=${all} onChange=${() => { chosen.value = all ? new Set() : new Set(items.map(idOf)); }} /></th>`}
        ${shown.map((column) => html`<th scope="col" class=${column.className} key=${column.key}>${column.label}</th>`)}
      </tr></thead>
      <tbody>${items.flatMap((item, index) => [html`<tr key=${idOf(item)} data-id=${idOf(item)} tabindex=${index === Math.max(0, at.value) ? 0 : -1} aria-selected=${batch ? chosen.value.has(idOf(item)) : null} onFocus=${() => { at.value = index; }}
        onDblClick=${rowHref ? () => { location.hash = rowHref(item); } : null}>
        ${batch && html`<td class="choose"><input type="checkbox" tabindex="-1" aria-label=${t("list.choose", {id: idOf(item)})} checked=${chosen.value.has(idOf(item))} onChange=${() => toggle(item)} /></td>`}
        ${shown.map((column) => html`<td class=${column.className} data-label=${column.label} key=${column.key}>${column.cell(item)}</td>`)}
      </tr>`, detail?.(item) && html`<tr key=${`${idOf(item)} detail`} class="row-detail"><td colspan=${shown.length + (batch ? 1 : 0)}>${detail(item)}</td></tr>`])}</tbody>
    </table></div>
    <div class="list-end">
      <span class="faint">${hasMore ? t("list.some", {count: items.length}) : t("list.all", {count: items.length})}</span>
      ${looked !== null && hasMore && html`<span>${t("list.looked")} <${Time} ms=${looked} /></span>`}
      ${hasMore && html`<button class="small" disabled=${isMoreLoading} onClick=${more}>${t("list.more")}</button>`}
      <span class="filter-end">
        <button type="button" class="link small" onClick=${csv}>${t("list.csv", {count: found.length || items.length})}</button>
        ${optional.length > 0 && html`<${Menu} label=${t("list.columns")} items=${optional.map((column) => ({label: `${hidden.has(column.key) ? "☐" : "☑"} ${column.label}`, run: () => setColumns(column.key)}))}>▥<//>`}
      </span>
    </div>
    ${batch && found.length > 0 && html`<div class="batch" role="region" aria-label=${t("list.batch")}>
      <strong>${t("list.chosen", {count: found.length})}</strong> ${batch(found, clear)}
      <button class="link small" onClick=${clear}>${t("list.clear")}</button></div>`}
  <//>`;
}

/** The outcome of a batch: a line for each object that did not do as it was asked. */
export function showBatch(title, results, nameOf) {
  const bad = results.filter((item) => item.error);
  return openDialog((close) => html`<div>
    <p>${t("batch.done", {good: number(results.length - bad.length), all: number(results.length)})}</p>
    ${bad.length > 0 && html`<ul class="batch-bad">${bad.map((item) => html`<li><strong>${nameOf(item)}</strong>: ${item.error}</li>`)}</ul>`}
    <footer><button autofocus onClick=${() => close()}>${t("action.close")}</button></footer></div>`, {label: title});
}
