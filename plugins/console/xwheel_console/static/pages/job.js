// P4: everything about one job, in tabs.
import {html, useEffect} from "../vendor/core.js";
import {get} from "../api.js";
import {language, loadWords, t} from "../i18n.js";
import {useLoad} from "../store.js";
import {Panel} from "../components/ui.js";
import {JobHead} from "./jobs/head.js";
import {Overview} from "./jobs/overview.js";
import {RunsOfJob} from "./jobs/runs.js";
import {Family} from "./jobs/family.js";
import {History} from "./jobs/history.js";
import {Operations} from "./jobs/operations.js";

const TABS = {overview: Overview, runs: RunsOfJob, children: Family, history: History, operations: Operations};

export default function JobPage({id, tab = "overview", query}) {
  const load = useLoad((abort) => get(`jobs/${id}`, {}, {abort}), [id], {when: (event) => (event.kind === "job" || event.kind === "run") && (event.job_id ?? event.id) === Number(id)});
  // while another job is loaded, nothing is offered for the one before
  const of = {...load, data: load.data?.id === Number(id) ? load.data : null};
  // the reasons of runs are explained by the words of their pages
  useEffect(() => { loadWords("runs").catch(() => {}); }, [language.value]);
  const View = TABS[tab];
  return html`<${JobHead} of=${of} id=${id} tab=${tab} />
    <${Panel} of=${of}>${of.data && (View ? html`<${View} key=${`${id} ${tab}`} job=${of.data} query=${query} reload=${of.reload} />` : html`<p>${t("error.noPage")}</p>`)}<//>`;
}
