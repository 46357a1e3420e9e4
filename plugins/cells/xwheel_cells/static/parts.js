// Small parts of the page of cells. What other clusters said is shown as text, and links lead to the addresses of this node's options alone.
import {html, useSignal} from "../../vendor/core.js";
import {get} from "../../api.js";
import {has, t} from "../../i18n.js";
import {useLoad} from "../../store.js";
import {Badge} from "../../components/ui.js";

export const w = (key, slots) => t(`cells.${key}`, slots);

/** The state of a job or run; a word of another version stays as it is. */
export const State = ({of}) => html`<${Badge} state=${of} words=${has(`state.${of}`) ? t(`state.${of}`) : of} />`;

/** Where something is in the console of its cell. */
export const hrefOf = (cell, place) => (!cell || cell.is_here ? `#${place}` : `${cell.url}/#${place}`);

/** A link into the console of a cell; another cluster's opens by itself and learns nothing of this page. */
export const Link = ({cell, place, children}) => (!cell || cell.is_here
  ? html`<a href=${hrefOf(cell, place)}>${children}</a>`
  : html`<a href=${hrefOf(cell, place)} target="_blank" rel="noopener noreferrer">${children}</a>`);

/** The cells that an answer lacks, with the reason of each. */
export function Missing({of}) {
  if (!of?.length) return null;
  return html`<div class="banner bad" role="status" data-missing=${of.map((one) => one.cell).join(" ")}>⚡ ${w("missing", {count: of.length})}
    <ul>${of.map((one) => html`<li key=${one.cell}><strong><bdi>${one.cell}</bdi></strong>: ${w(`code.${one.code}`)}<span class="under">${one.reason}</span></li>`)}</ul></div>`;
}

/** Pages of a list over all cells, as tables take them; ids count in their cell alone, so a row has a key besides. */
export function useCellPages(path, params) {
  const isBusy = useSignal(false);
  const fetch = async (after, abort) => {
    const found = await get(path, {...params, limit: 50, after}, {abort});
    return {...found, items: found.items.map((item) => ({...item, key: `${item.cell}/${item.id}`}))};
  };
  const load = useLoad((abort) => fetch(undefined, abort), [path, JSON.stringify(params)]);
  const more = async () => {
    if (load.data?.next == null || isBusy.value) return;
    isBusy.value = true;
    try {
      const found = await fetch(load.data.next);
      load.set({...found, items: load.data.items.concat(found.items)});
    } finally { isBusy.value = false; }
  };
  return {load, items: load.data?.items ?? [], hasMore: load.data?.next != null, looked: load.data?.looked_ms ?? null, more, isMoreLoading: isBusy.value};
}
