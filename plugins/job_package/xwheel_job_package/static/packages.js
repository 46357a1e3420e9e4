// What the package store adds to the console; pages and dialogs are loaded when they are first asked for.
const load = (page) => async () => {
  const [{loadOwnWords}, module] = await Promise.all([import("./words.js"), page()]);
  await loadOwnWords();
  return module;
};
const operations = load(() => import("./operations.js"));

export default {
  words: {
    en: {title: "Packages", files: "Files of a package", operations: "Package operations", operate: "Start, pause, restart…"},
    "zh-CN": {title: "任务包", files: "任务包的文件", operations: "任务包操作", operate: "启动、暂停、重启…"},
  },
  menu: [{to: "/packages", label: "title", icon: "⬒", permission: "read"}],
  pages: [
    {name: "packages", path: "/packages", title: "title", area: "jobs", load: load(() => import("./list.js"))},
    {name: "packageFiles", path: "/packages/:id/files", title: "files", load: load(() => import("./files.js"))},
    {name: "packageJob", path: "/packages/jobs/:id", title: "operations", area: "jobs", load: operations},
  ],
  jobActions: [
    {label: "operate", permission: "run", shows: (job) => job.glue_type === "PACKAGE", run: async (job) => (await operations()).operate(job)},
    {label: "operations", permission: "read", shows: (job) => job.glue_type === "PACKAGE", run: (job) => { location.hash = `#/packages/jobs/${job.id}`; }},
  ],
};
