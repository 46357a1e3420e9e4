import {html} from "../../vendor/core.js";
import {t} from "../../i18n.js";
import {note} from "../../components/dialog.js";

const Sample = () => html`<div class="page-head"><h1 tabindex="-1">${t("sample.title")}</h1></div><p>${t("sample.words", {count: 3})}</p>`;
const Tile = () => html`<div class="tile" data-tile="sample">${t("sample.tile")}</div>`;

export default {
  words: {
    en: {title: "A page of a plugin", words_one: "One word", words_other: "{count} words", tile: "Tile of a plugin", greet: "Greet it"},
    "zh-CN": {title: "插件页面", words_other: "{count} 个词", tile: "插件卡片", greet: "打招呼"},
  },
  menu: [{to: "/sample", label: "title", icon: "✿", permission: "read"}],
  pages: [{name: "sample", path: "/sample", title: "title", load: async () => ({default: Sample})}],
  tiles: [{load: async () => ({default: Tile})}],
  jobActions: [{label: "greet", permission: "read", shows: (job) => job.name.startsWith("greeted"), run: (job) => note(`greeted ${job.name}`)}],
  runActions: [{label: "greet", permission: "read", shows: (run) => run.job_name.startsWith("greeted"), run: (run) => note(`greeted ${run.id}`)}],
};
