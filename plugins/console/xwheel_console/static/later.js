// What is loaded once a page stands, so that it is there when the node is away; what is not needed to see a page.
import {t} from "./i18n.js";
import {note} from "./components/dialog.js";

const loads = {
  palette: () => import("./components/palette.js").then((module) => module.openPalette),
  keyHelp: () => import("./components/keyhelp.js").then((module) => module.showKeys),
  runForm: () => import("./components/runform.js").then((module) => module.RunForm),
};

/** Each gives what it is named after, or null, once it is said that the node did not answer. */
export const later = Object.fromEntries(Object.entries(loads).map(([name, load]) => [name, () => load().catch(() => { note(t("error.network"), {tone: "bad"}); return null; })]));

/** Load all of it. */
export const loadRest = () => Promise.allSettled([...Object.values(loads).map((load) => load()), import("./pages/login.js")]);

/** Open the palette; what is typed while it is on its way is typed into it. */
export async function openPalette() {
  let typed = "";
  const keep = (event) => {
    if (event.key.length === 1 && !event.ctrlKey && !event.metaKey) typed += event.key;
    event.preventDefault();
    event.stopPropagation();
  };
  const leave = () => removeEventListener("keydown", keep, true);
  addEventListener("keydown", keep, true);
  setTimeout(leave, 5000);
  const show = await later.palette();
  leave();
  show?.(typed);
}
