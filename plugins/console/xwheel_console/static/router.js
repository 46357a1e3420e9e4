// Where the page is: all of it stands behind the # of the address, so that a link opens the same for a colleague.
import {signal} from "./vendor/core.js";

const read = () => {
  const [path, query = ""] = (location.hash.replace(/^#/, "") || "/").split("?");
  return {path: path.startsWith("/") ? path : `/${path}`, query: Object.fromEntries(new URLSearchParams(query))};
};

/** {path, query} of the address. */
export const place = signal(read());

/** Asked before a page is left; returns a text if something would be lost, or null. One page at a time sets it. */
export const leaving = {ask: null};

export const link = (path, query = {}) => {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) found.set(name, value === true ? "1" : String(value));
  }
  const text = found.toString();
  return `#${path}${text ? `?${text}` : ""}`;
};

/** What lies over a page: `ask()` returns a text if something would be lost, `end()` takes it away. The dialogs set both. */
export const over = {ask: () => null, end: () => {}};

let current = location.hash;
const move = (hash, replace) => {
  if (hash === location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", hash);
  arrive();
};
const arrive = () => {
  current = location.hash;
  place.value = read();
};

/** Go to another page; false if the person stays, to keep what they typed. */
export function go(path, query = {}, {replace = false, force = false} = {}) {
  const words = force ? null : leaving.ask?.();
  if (words && !confirm(words)) return false;
  leaving.ask = null;
  move(link(path, query), replace);
  return true;
}

/** Change what stands behind the ?; undefined and empty values leave it. */
export function setQuery(change, {replace = true} = {}) {
  move(link(place.value.path, {...place.value.query, ...change}), replace);
}

/** A link, the keys of the browser or somebody's typing moved; a page that would lose something is asked first. */
function moved() {
  if (location.hash === current) return;
  const isOther = place.value.path !== read().path;
  const words = isOther ? over.ask() ?? leaving.ask?.() : null;
  if (words && !confirm(words)) {
    history.pushState(null, "", current || "#/");
    return;
  }
  if (isOther) {
    leaving.ask = null;
    over.end();
  }
  arrive();
}
// a link inside the page tells both, the first one before the second
addEventListener("popstate", moved);
addEventListener("hashchange", moved);
addEventListener("beforeunload", (event) => { if (leaving.ask?.()) event.preventDefault(); });

/** A part of an address; one that somebody typed or cut off stays as it is. */
const decoded = (part) => { try { return decodeURIComponent(part); } catch { return part; } };

/** The fields of a path by a pattern such as /jobs/:id/:tab?, or null. */
export function match(pattern, path) {
  const wanted = pattern.split("/").slice(1);
  const found = path.split("/").slice(1).map(decoded);
  const fields = {};
  for (const [index, part] of wanted.entries()) {
    if (part.startsWith(":")) {
      const name = part.replace(/^:|\?$/g, "");
      if (found[index] === undefined || found[index] === "") { if (part.endsWith("?")) continue; return null; }
      fields[name] = found[index];
    } else if (part !== (found[index] ?? "")) return null;
  }
  return found.length <= wanted.length ? fields : null;
}
