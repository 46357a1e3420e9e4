// P18: who may do what: accounts, tokens of services, secrets of executors, and what each role is.
import {html} from "../vendor/core.js";
import {t} from "../i18n.js";
import {link} from "../router.js";
import {may} from "../store.js";
import {Tabs} from "../components/ui.js";
import {Roles} from "./accounts/roles.js";
import {Secrets} from "./accounts/secrets.js";
import {Tokens} from "./accounts/tokens.js";
import {Users} from "./accounts/users.js";

const VIEWS = {users: Users, tokens: Tokens, secrets: Secrets, roles: Roles};
/** Accounts are seen by admins of all groups, tokens and secrets by those of some. */
const NEEDS = {users: () => may("admin", null), tokens: () => may("admin"), secrets: () => may("admin"), roles: () => true};

export default function Accounts({tab, query}) {
  const found = Object.keys(VIEWS).filter((name) => NEEDS[name]());
  const current = found.includes(tab) ? tab : found[0];
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.accounts")}</h1></div>
    <${Tabs} label=${t("nav.accounts")} current=${current} items=${found.map((name) => [name, t(`access.tab.${name}`), link(`/accounts/${name}`)])} />
    <${VIEWS[current]} key=${current} query=${query} />`;
}
