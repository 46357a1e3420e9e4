// What all pages share: who is signed in, what they like, what time it is, and what changed.
import {computed, effect, signal, useEffect, useLayoutEffect, useRef, useSignal} from "./vendor/core.js";
import {ApiError, away, get, put, session, signedOut} from "./api.js";
import {language, setLanguage, zone} from "./i18n.js";

const RANKS = {viewer: 1, operator: 2, editor: 3, admin: 4};
const NEEDS = {read: 1, run: 2, edit: 3, admin: 4};

/** Whether the caller has a permission (read, run, edit, script, admin) in a group; undefined for any, null for all groups. */
export function may(permission, groupId) {
  const who = session.value;
  if (!who) return false;
  const allows = (grant) => Boolean(grant?.role) && (permission === "script"
    ? grant.role === "admin" || (RANKS[grant.role] >= NEEDS.edit && grant.script)
    : RANKS[grant.role] >= NEEDS[permission]);
  if (allows(who)) return true;
  if (groupId === null) return false;
  return who.groups.some((grant) => (groupId === undefined || grant.group_id === groupId) && allows(grant));
}

/** Seconds pass for all relative times at once. */
export const now = signal(Date.now());
/** How far the node's clock is ahead of the browser's. */
export const skewMs = signal(0);
setInterval(() => { if (!document.hidden) now.value = Date.now() + skewMs.value; }, 1000);

// who this browser is

const KNOWN = "xwheel.known", WHO = "xwheel.who";
/** Whether this browser has ever been signed in here: the cookie itself is hidden from scripts. */
export const mayBeSignedIn = () => { try { return localStorage.getItem(KNOWN) !== null; } catch { return true; } };
/** Name of another account with which another tab of this browser signed in meanwhile, or null: the cookie is theirs now. */
export const otherWho = signal(null);
/** Keep that somebody is signed in here, and who: other tabs look at it. */
export function rememberWho() {
  otherWho.value = null;
  try { localStorage.setItem(KNOWN, "yes"); localStorage.setItem(WHO, session.value.name); } catch { /* then it is asked each time */ }
}
addEventListener("storage", ({key, newValue}) => {
  if (key === WHO && newValue && session.value) otherWho.value = newValue === session.value.name ? null : newValue;
});

// preferences

const KEPT = "xwheel.preferences";
const read = () => { try { return JSON.parse(localStorage.getItem(KEPT)) ?? {}; } catch { return {}; } };
export const preferences = signal({theme: "auto", language: null, zone: "browser", landing: "/jobs", keys: true, columns: {}, ...read()});
export const theme = computed(() => preferences.value.theme);
effect(() => {
  const wanted = preferences.value.theme;
  if (wanted === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
});
effect(() => { zone.value = preferences.value.zone; });

let saving = null;
function save(options) {
  clearTimeout(saving);
  saving = null;
  put("me/settings/preferences", {value: preferences.value}, options).catch(() => {});
}
// who leaves at once has chosen all the same
addEventListener("pagehide", () => { if (saving !== null) save({keepalive: true}); });
/** Keep preferences: here at once, and with the account. */
export function prefer(change) {
  preferences.value = {...preferences.value, ...change};
  try { localStorage.setItem(KEPT, JSON.stringify(preferences.value)); } catch { /* a private window keeps nothing */ }
  if (change.language) setLanguage(change.language);
  clearTimeout(saving);
  if (session.value?.account_id) saving = setTimeout(save, 800);
}

/** Views that the account keeps: [{name, path, query}]. */
export const views = signal([]);
export async function loadSettings() {
  if (!session.value?.account_id) return;
  try {
    const {settings} = await get("me/settings");
    if (settings.preferences) {
      preferences.value = {...preferences.value, ...settings.preferences};
      if (settings.preferences.language && settings.preferences.language !== language.value) await setLanguage(settings.preferences.language);
    }
    views.value = settings.views ?? [];
  } catch (error) { if (!(error instanceof ApiError)) throw error; }
}
export const saveViews = async (list) => { await put("me/settings/views", {value: list}); views.value = list; };

// what changed

/** Live counts of the shell: running, waiting, failed_24h, late, nodes, nodes_away, executors, paused_since_ms. */
export const counts = signal(null);
/** When the newest answer about changes came. */
export const heardMs = signal(null);
const listeners = new Set();
let cursor = null;
let timer = null;
const FAST_MS = 1000, SLOW_MS = 5000, AWAY_MS = 2000, MOST_AWAY_MS = 10_000;
let pauseMs = FAST_MS;

async function ask() {
  timer = null;
  if (!session.value || signedOut.value) return schedule(FAST_MS);
  try {
    const answer = await get("events", {after: cursor}, {tries: []});
    const isFirst = cursor === null;
    cursor = answer.next;
    skewMs.value = Math.abs(answer.now_ms - Date.now()) > 2000 ? answer.now_ms - Date.now() : 0;
    counts.value = answer.counts;
    heardMs.value = Date.now();
    if (answer.reset && !isFirst) tell(null);
    else if (answer.items.length) tell(answer.items);
    pauseMs = FAST_MS;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    pauseMs = Math.min(MOST_AWAY_MS, error.isNetwork ? AWAY_MS : Math.max(pauseMs * 2, AWAY_MS));
  }
  schedule(document.hidden ? Math.max(SLOW_MS, pauseMs) : pauseMs);
}
const schedule = (ms) => { clearTimeout(timer); timer = setTimeout(ask, ms); };
const tell = (items) => { for (const one of [...listeners]) one(items); };
export function startLive() {
  ask();
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { now.value = Date.now() + skewMs.value; schedule(0); } });
}

/** Be told of changes: a list of events, or null if anything may have changed. Returns what ends it. */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** How long after a failure, and after a call that is still under way, it is asked again. */
const AGAIN_MS = 5000, BUSY_MS = 1500;

/**
 * Load something and keep it fresh: {data, error, isLoading, isStale, reload}.
 *
 * `load(abort)` is called at first, when `deps` change, when an event comes for which `when(event)` is true (at most once
 * in `everyMs`), when answers come again after none came, and some seconds after a failure that may pass. What was shown
 * stays while it is loaded again.
 */
export function useLoad(load, deps, {when = null, everyMs = 1500} = {}) {
  const state = useSignal({data: null, error: null, isLoading: true, atMs: null});
  const latest = useRef({});
  latest.current.load = load;
  latest.current.when = when;
  const run = useRef(null);
  run.current ??= async (isFresh) => {
    const self = latest.current;
    self.abort?.abort();
    const abort = self.abort = new AbortController();
    self.isBusy = true;
    if (isFresh) state.value = {...state.value, isLoading: true, error: null};
    try {
      const data = await self.load(abort.signal);
      if (!abort.signal.aborted) state.value = {data, error: null, isLoading: false, atMs: Date.now()};
    } catch (error) {
      if (!abort.signal.aborted) {
        state.value = {...state.value, error, isLoading: false};
        if (error instanceof ApiError && error.mayPass) self.soon?.(AGAIN_MS);
      }
    }
    if (!abort.signal.aborted) self.isBusy = false;
  };
  // asked for before what stands already is painted
  useLayoutEffect(() => {
    state.value = {...state.value, isLoading: true};
    run.current(true);
    return () => latest.current.abort?.abort();
  }, deps);
  useEffect(() => {
    let due = null, dueMs = Infinity, lastMs = 0;
    const soon = latest.current.soon = (ms = Math.max(50, lastMs + everyMs - Date.now())) => {
      if (Date.now() + ms >= dueMs) return;
      clearTimeout(due);
      dueMs = Date.now() + ms;
      due = setTimeout(again, ms);
    };
    const again = () => {
      dueMs = Infinity;
      // what is under way is not given up for news: where answers take longer than news, none would ever be shown
      if (latest.current.isBusy) return soon(Math.min(everyMs, BUSY_MS));
      lastMs = Date.now();
      run.current(false);
    };
    const end = onChange((items) => {
      const wanted = latest.current.when;
      if (wanted && (items === null || items.some(wanted))) soon();
    });
    let wasAway = away.value !== null;
    const watch = away.subscribe((since) => { if (wasAway && since === null) soon(state.peek().error ? 50 : undefined); wasAway = since !== null; });
    let wasOut = signedOut.value;
    const watchOut = signedOut.subscribe((out) => { if (wasOut && !out) soon(); wasOut = out; });
    return () => { end(); watch(); watchOut(); clearTimeout(due); };
  }, []);
  const {data, error, isLoading, atMs} = state.value;
  return {data, error, isLoading, atMs, isStale: data !== null && (error !== null || away.value !== null), reload: () => run.current(false), set: (next) => { state.value = {...state.value, data: next}; }};
}

/** A value that follows another one after it has rested for a while; for filters that are typed. */
export function useRested(value, ms = 120) {
  const rested = useSignal(value);
  useEffect(() => { const wait = setTimeout(() => { rested.value = value; }, ms); return () => clearTimeout(wait); }, [value]);
  return rested.value;
}
