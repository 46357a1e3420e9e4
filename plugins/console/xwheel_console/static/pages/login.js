// Signing in: by name and password, by a link that works once, and again where a session ended under a page.
import {html, useEffect, useRef, useSignal} from "../vendor/core.js";
import {ApiError, get, post, session} from "../api.js";
import {LANGUAGES, language, t} from "../i18n.js";
import {go, place, setQuery} from "../router.js";
import {mayBeSignedIn, prefer, preferences} from "../store.js";
import {note} from "../components/dialog.js";

function words(error) {
  if (error.isNetwork) return t("error.network");
  if (error.status === 429) return t("login.wait", {seconds: Math.ceil((error.retryAfterMs ?? 1000) / 1000)});
  if (error.status === 401) return t("login.wrong");
  return error.message;
}

/** Sign in; where a password of the same address is judged just then, as of a colleague, once more a moment later. */
async function begin(body) {
  try {
    return await post("session", body);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "busy") throw error;
    await new Promise((done) => { setTimeout(done, error.retryAfterMs ?? 1000); });
    return post("session", body);
  }
}

function Form({enter, name = "", done}) {
  const fields = useSignal({name, password: ""}), isShown = useSignal(false), problem = useSignal(null), isBusy = useSignal(false), ref = useRef(null);
  const change = (field) => (event) => { fields.value = {...fields.value, [field]: event.target.value}; };
  const submit = async (event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    problem.value = null;
    try {
      await begin(fields.value);
      await enter();
      done();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      problem.value = words(error);
      ref.current?.focus();
    } finally { isBusy.value = false; }
  };
  return html`<form onSubmit=${submit} class="sign-in">
    <label>${t("login.name")}<input name="name" autocomplete="username" required autofocus=${!name} value=${fields.value.name} onInput=${change("name")} readonly=${Boolean(name)} /></label>
    <label>${t("login.password")}<input name="password" type=${isShown.value ? "text" : "password"} autocomplete="current-password" required autofocus=${Boolean(name)} ref=${ref} value=${fields.value.password} onInput=${change("password")} /></label>
    <label class="inline"><input type="checkbox" checked=${isShown.value} onChange=${(event) => { isShown.value = event.target.checked; }} /> ${t("login.show")}</label>
    ${problem.value && html`<p class="field-error" role="alert">${problem.value}</p>`}
    <button type="submit" aria-busy=${isBusy.value || null} disabled=${isBusy.value}>${t("login.enter")}</button>
  </form>`;
}

const asked = () => {
  const wanted = place.value.query.to;
  return wanted && wanted.startsWith("/") && !wanted.startsWith("//") ? wanted : null;
};

const landing = () => go(preferences.value.landing, {}, {replace: true});

/** Who is signed in now in this browser, as GET /session says it; null for no one. */
const signedIn = () => (session.value ? Promise.resolve(session.value) : mayBeSignedIn() ? get("session", {}, {tries: []}).catch(() => null) : Promise.resolve(null));
const isNamed = (who) => (who.display_name ? `${who.display_name} (${who.name})` : who.name);

/**
 * Whose a link is, and one click: no one becomes somebody else by opening an address.
 *
 * Where the same account is signed in already there is nothing to ask.
 */
function ByLink({secret, enter, failed}) {
  const asked = useSignal(null), isBusy = useSignal(false);
  const use = async () => {
    if (isBusy.value) return;
    isBusy.value = true;
    try {
      await post("session", {link: secret});
      await enter();
      note(t("login.now", {name: isNamed(session.value)}));
      landing();
    } catch (error) { failed(error); }
  };
  useEffect(() => {
    Promise.all([post("session/link", {link: secret}), signedIn()]).then(([owner, present]) => {
      asked.value = {owner, present};
      if (present?.name === owner.name) use();
    }).catch(failed);
  }, []);
  if (!asked.value || isBusy.value) return html`<p role="status" aria-busy="true">${t("login.entering")}</p>`;
  const {owner, present} = asked.value;
  const leave = async () => { if (!session.value) await enter(); landing(); };
  return html`<div data-link-of=${owner.name}><p>${t("login.linkOf")} <strong><bdi>${isNamed(owner)}</bdi></strong>.</p>
    ${present && html`<p>${t("login.present")} <strong><bdi>${isNamed(present)}</bdi></strong>. ${t("login.ends")}</p>`}
    <button type="button" autofocus onClick=${use}>${t("login.enterAs", {name: owner.name})}</button>
    ${present && html` <button type="button" class="secondary" onClick=${leave}>${t("login.stay", {name: present.name})}</button>`}</div>`;
}

/** The page of somebody who is not signed in, or who opened a sign-in link; afterwards the page that was asked for. */
export function Login({enter}) {
  const problem = useSignal(null), secret = useSignal(null);
  const done = () => {
    const to = asked() ?? (place.value.path === "/login" ? preferences.value.landing : null);
    if (to) { const [path, query = ""] = to.split("?"); go(path, Object.fromEntries(new URLSearchParams(query)), {replace: true}); }
  };
  useEffect(() => { document.title = `${t("login.title")} · xwheel`; }, []);
  const given = place.value.path === "/login" ? place.value.query.link : null;
  useEffect(() => {
    if (given) { problem.value = null; secret.value = given; setQuery({link: undefined}); }
    // anyone who is signed in and has no link has nothing to do here
    else if (session.value && !secret.value) landing();
  }, [given]);
  const failed = (error) => {
    if (!(error instanceof ApiError)) throw error;
    problem.value = error.status === 401 ? t("login.linkEnded") : words(error);
    secret.value = null;
  };
  return html`<main class="login" data-page="login"><article>
    <h1 tabindex="-1"><img src="icon.svg" alt="" width="28" height="28" /> xwheel</h1>
    ${problem.value && html`<p class="field-error" role="alert">${problem.value}</p>`}
    ${secret.value ? html`<${ByLink} key=${secret.value} secret=${secret.value} enter=${enter} failed=${failed} />`
    : session.value ? html`<p><a href="#/">${t("login.stay", {name: session.value.name})}</a></p>` : html`<${Form} enter=${enter} done=${done} />`}
    <label class="language">${t("login.language")}<select onChange=${(event) => prefer({language: event.target.value})}>${Object.entries(LANGUAGES).map(([key, name]) => html`<option value=${key} selected=${key === language.value}>${name}</option>`)}</select></label>
  </article></main>`;
}

/** Asks for the password over a page whose session ended; what was typed there stays. */
export function SignInAgain({enter}) {
  const ref = useRef(null), who = useRef(session.value?.account_id ? session.value.name : "");
  useEffect(() => { ref.current.showModal(); }, []);
  return html`<dialog ref=${ref} aria-labelledby="again" onCancel=${(event) => event.preventDefault()}><article><header><h2 id="again">${t("login.again")}</h2></header><p>${t("login.kept")}</p><${Form} enter=${enter} name=${who.current} done=${() => {}} /></article></dialog>`;
}
