// P17: what went wrong and who was told; rules; each attempt with the other side's answer.
import {html} from "../vendor/core.js";
import {t} from "../i18n.js";
import {link} from "../router.js";
import {Tabs} from "../components/ui.js";
import {Happened} from "./alarms/happened.js";
import {Rules} from "./alarms/rules.js";
import {Attempts} from "./alarms/attempts.js";

const VIEWS = {alarms: Happened, rules: Rules, attempts: Attempts};

export default function Alarms({tab = "alarms", query}) {
  const current = tab in VIEWS ? tab : "alarms";
  return html`<div class="page-head"><h1 tabindex="-1">${t("nav.alarms")}</h1></div>
    <${Tabs} label=${t("nav.alarms")} current=${current} items=${Object.keys(VIEWS).map((name) => [name, t(`alarm.tab.${name}`), link(name === "alarms" ? "/alarms" : `/alarms/${name}`)])} />
    <${VIEWS[current]} key=${current} query=${query} />`;
}
