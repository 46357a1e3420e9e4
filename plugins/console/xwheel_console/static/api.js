// Calls of the management API. Reads are tried again, changes never by themselves: who asked decides.
import {signal} from "./vendor/core.js";

const BASE = new URL("api/v1/", document.baseURI);
const TRIES_MS = [300, 1000, 2500];
const LONGEST_MS = 20_000;

/** Since when no answer comes, as epoch ms, or null while they come. */
export const away = signal(null);
/** Whether the session has ended; the page stays as it is under the sign-in form. */
export const signedOut = signal(false);
/** What GET /session says, or null. */
export const session = signal(null);

/** A failure, as the node's problem says it, or of the network. */
export class ApiError extends Error {
  constructor(problem, status) {
    super(problem.detail || problem.title || String(status));
    this.status = status;
    this.problem = problem;
    /** The last part of the problem's type, such as "conflict"; "network" without an answer. */
    this.code = (problem.type || "").split(":").pop();
    this.field = problem.field ?? null;
    this.requestId = problem.request_id ?? problem.instance ?? null;
  }

  get isNetwork() { return this.code === "network"; }

  /** Whether the same call may get an answer in a while: none came, or the node has too much to do. */
  get mayPass() { return this.isNetwork || this.status === 503 || this.status === 502; }
}

export const url = (path, params = {}) => {
  const found = new URL(path.replace(/^\//, ""), BASE);
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === null || value === "" || (Array.isArray(value) && !value.length)) continue;
    found.searchParams.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  return found;
};

const sleep = (ms, signalOf) => new Promise((done, fail) => {
  const timer = setTimeout(done, ms);
  signalOf?.addEventListener("abort", () => { clearTimeout(timer); fail(signalOf.reason); }, {once: true});
});

async function once(method, path, {params, body, headers = {}, abort, keepalive, isText = false} = {}) {
  const limit = AbortSignal.timeout(LONGEST_MS);
  const sent = {Accept: isText ? "text/*" : "application/json", ...headers};
  if (method !== "GET" && session.value?.csrf) sent["X-Xwheel-CSRF"] = session.value.csrf;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(url(path, params), {
      method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin", cache: "no-store", keepalive, signal: abort ? AbortSignal.any([abort, limit]) : limit,
    });
  } catch (error) {
    if (abort?.aborted) throw abort.reason;
    away.value ??= Date.now();
    throw new ApiError({type: "network", detail: String(error.message || error)}, 0);
  }
  away.value = null;
  if (answer.status === 204 || answer.status === 304) return null;
  const text = await answer.text().catch(() => "");
  if (answer.ok) return isText ? text : text ? JSON.parse(text) : null;
  let problem = {};
  try { problem = JSON.parse(text); } catch { problem = {detail: text.slice(0, 500)}; }
  problem.request_id ??= answer.headers.get("X-Request-Id");
  const error = new ApiError(problem, answer.status);
  const wait = Number(answer.headers.get("Retry-After"));
  if (wait) error.retryAfterMs = wait * 1000;
  if (answer.status === 401 && !path.startsWith("session")) signedOut.value = true;
  throw error;
}

/** Read, and try again a few times where no answer comes or the node is too busy. */
export async function get(path, params, {abort, isText, tries = TRIES_MS} = {}) {
  for (let turn = 0; ; turn += 1) {
    try {
      return await once("GET", path, {params, abort, isText});
    } catch (error) {
      if (!(error instanceof ApiError && error.mayPass) || turn >= tries.length) throw error;
      await sleep(tries[turn], abort);
    }
  }
}

/** Asks for the password once more; resolves with whether it was right. What shows dialogs sets it. */
export const presence = {ask: null};
/** After this time all nodes know that the password was right. */
const KNOWN_MS = 1100;

const change = (method) => async (path, body, {reason, match, key, params, keepalive} = {}) => {
  const headers = {};
  if (reason) headers["Xwheel-Reason"] = encodeURIComponent(reason);
  if (match) headers["If-Match"] = `"${match}"`;
  if (key) headers["Idempotency-Key"] = key;
  const call = () => once(method, path, {body, headers, params, keepalive});
  const isUnconfirmed = (error) => error.code === "unconfirmed";
  try {
    return await call();
  } catch (error) {
    if (!isUnconfirmed(error) || !(await presence.ask?.())) throw error;
  }
  try {
    return await call();
  } catch (error) {
    if (!isUnconfirmed(error)) throw error;
    await sleep(KNOWN_MS); // another node answered
    return call();
  }
};
export const post = change("POST");
export const put = change("PUT");
export const patch = change("PATCH");
export const del = (path, options) => change("DELETE")(path, undefined, options);

/**
 * All items of a list, page by page, at most this many. What no index answers is looked for in a few pages: they may be
 * short or empty, and a whole table is not gone through for them.
 */
export async function getAll(path, params = {}, most = 5000, options = {}) {
  const items = [];
  let after, left = Math.ceil(most / 1000) + 1;
  do {
    const page = await get(path, {limit: 1000, ...params, after}, options);
    items.push(...page.items);
    after = page.next;
    left -= 1;
  } while (after !== null && items.length < most && left > 0);
  return items;
}

/** A key by which a repeated change is known to be the same: one for each time that a person asks. */
export const newKey = () => crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
