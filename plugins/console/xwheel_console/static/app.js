// The start: words, session, pages of plugins, then the shell with the page of the address.
import {html, render, signal, useEffect, useErrorBoundary, useRef, useSignal} from "./vendor/core.js";
import {ApiError, get, session, signedOut} from "./api.js";
import {addWords, language, loadWords, pickLanguage, setLanguage, t} from "./i18n.js";
import {match, place} from "./router.js";
import {loadSettings, mayBeSignedIn, otherWho, preferences, rememberWho, startLive} from "./store.js";
import {PAGES} from "./pages.js";
import {Shell} from "./components/shell.js";
import {Dialogs, Notes} from "./components/dialog.js";
import {Failure} from "./components/ui.js";

const isReady = signal(false);
/** What plugins add: {menu, tiles, jobActions, runActions}, each item with `plugin`. */
export const added = signal({menu: [], pages: [], tiles: [], jobActions: [], runActions: []});
globalThis.xwheel = Object.freeze({added});

async function loadPlugins() {
  const {items} = await get("console/manifest");
  // who signs in again, or as somebody else, has none of them twice
  const made = Object.fromEntries(Object.keys(added.value).map((part) => [part, []]));
  for (const {name, module} of items) {
    try {
      const found = (await import(new URL(module, document.baseURI).href)).default;
      for (const [lang, words] of Object.entries(found.words ?? {})) addWords(lang, Object.fromEntries(Object.entries(words).map(([key, text]) => [`${name}.${key}`, text])));
      for (const part of Object.keys(made)) made[part].push(...(found[part] ?? []).map((item) => ({...item, plugin: name, ...(part === "pages" ? {title: `${name}.${item.title}`} : {})})));
    } catch (error) {
      console.warn(`the pages of plugin ${name} cannot be loaded:`, error);
    }
  }
  added.value = made;
}

export async function enter() {
  session.value = await get("session");
  rememberWho();
  signedOut.value = false;
  await Promise.all([loadSettings(), loadPlugins().catch((error) => { if (!(error instanceof ApiError)) throw error; })]);
}

function Page({page, fields}) {
  const found = useSignal(null), failure = useSignal(null), ref = useRef(null);
  const [error, clear] = useErrorBoundary();
  const wanted = useRef(page);
  wanted.current = page;
  const load = async () => {
    failure.value = null;
    try {
      const [module] = await Promise.all([page.load(), page.area ? loadWords(page.area) : null]);
      // somebody went on meanwhile: this page comes too late
      if (wanted.current !== page) return;
      found.value = {of: page, view: module.default ?? module[page.name]};
    } catch (problem) { if (wanted.current === page) failure.value = problem; }
  };
  useEffect(() => { clear(); load(); }, [page]);
  const title = page.title ?? `nav.${page.name}`;
  useEffect(() => {
    document.title = `${t(title)} · xwheel`;
    if (found.value?.of === page) ref.current?.querySelector("h1")?.focus({preventScroll: true});
    scrollTo(0, 0);
  }, [page, found.value?.of === page, place.value.path, language.value]);
  if (error) return html`<${Failure} error=${error} retry=${() => { clear(); load(); }} />`;
  if (failure.value) return html`<${Failure} error=${failure.value} retry=${load} />`;
  const View = found.value?.of === page ? found.value.view : null;
  return html`<div ref=${ref} class="page" data-page=${page.name}>${View ? html`<${View} ...${fields} query=${place.value.query} />` : null}</div>`;
}

const signIn = signal(null);
const AGAIN_MS = 2000;
/** Load what people sign in with; until it is there, as nothing can be done without it. */
async function loadSignIn() {
  while (!signIn.value) {
    try { signIn.value = await import("./pages/login.js"); } catch { await new Promise((done) => setTimeout(done, AGAIN_MS)); }
  }
}

function SignIn({view}) {
  useEffect(() => { loadSignIn(); }, []);
  const View = signIn.value?.[view];
  return View ? html`<${View} enter=${enter} />` : null;
}

function App() {
  language.value;
  if (!isReady.value) return null;
  const {path} = place.value;
  if (!session.value || path === "/login") return html`<${SignIn} view="Login" /><${Notes} />`;
  const all = [...PAGES, ...added.value.pages];
  let fields = null;
  const page = all.find((one) => { fields = match(one.path, path); return fields; });
  const shown = page ? html`<${Page} page=${page} fields=${fields} />` : html`<div class="page" data-page="none"><h1 tabindex="-1">${t("error.noPage")}</h1><p><a href="#/">${t("nav.dashboard")}</a></p></div>`;
  // where another tab signed in as somebody else, that session is why this one ended, and the banner says it
  const isOut = signedOut.value && !otherWho.value;
  return html`<${page?.isBare ? "div" : Shell} added=${page?.isBare ? null : added.value}>${shown}<//>${isOut && html`<${SignIn} view="SignInAgain" />`}<${Dialogs} /><${Notes} />`;
}

/** Begin to load the page of the address, while it is asked who is signed in. */
function fetchEarly() {
  const page = PAGES.find((one) => match(one.path, place.value.path));
  page?.load().catch(() => { /* it is loaded again when it is shown, and then said */ });
}

async function start() {
  const isLogin = place.value.path.startsWith("/login");
  if (isLogin || !mayBeSignedIn()) loadSignIn();
  else fetchEarly();
  const wanted = [preferences.value.language, ...navigator.languages].filter(Boolean);
  await Promise.all([setLanguage(pickLanguage(wanted)), loadWords("shell", pickLanguage(wanted))]);
  // who was never here has no session: to ask for it would be a refused call, which nodes count
  if (!isLogin && mayBeSignedIn()) {
    try { await enter(); } catch (error) { if (!(error instanceof ApiError)) throw error; }
  }
  if (isLogin || !session.value) await loadSignIn();
  signedOut.value = false;
  isReady.value = true;
  const root = document.getElementById("app");
  root.removeAttribute("aria-busy");
  render(html`<${App} />`, root);
  startLive();
  root.dataset.ready = "yes";
}
start();
