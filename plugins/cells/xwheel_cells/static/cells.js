// What the cells add to the console: one page with all clusters.
export default {
  words: {
    en: {
      title: "Cells", cells: "All cells", jobs: "Jobs", runs: "Runs", needAll: "This page is for those who may read all groups: it shows other clusters, too.",
      cell: "Cell", here: "this cluster", state: "State", answers: "answers", "code.unreachable": "cannot be reached", "code.unauthorized": "does not know the token",
      "code.forbidden": "the token may not read", "code.unknown": "lacks what is asked for", "code.redirects": "redirects", "code.failing": "fails", "code.busy": "too busy",
      "code.refused": "does not take the question", "code.malformed": "answers with something else", "code.too_large": "answers with too much",
      open: "Open runs", failed: "Failed in 24 hours", executors: "Executors", nodes: "Nodes", version: "Version", seen: "Last answer", console: "Open its console",
      sum: "All cells together", missing_one: "One cell is missing here", missing_other: "{count} cells are missing here", search: "Search in all cells", searched: "Found for “{text}”",
      none: "Nothing is called so in any cell that answers.", cut: "There is more than is shown: type more of the name.", groups: "Groups",
      job: "Job", handler: "Handler", schedule: "Schedule", next: "Next fire", run: "Run", due: "Due", message: "Message", noJobs: "No cell that answers has such jobs.", noRuns: "No cell that answers has such runs.",
      jobName: "Name, description or handler", allOpenOrFailed: "running or failed",
    },
    "zh-CN": {
      title: "多集群", cells: "所有集群", jobs: "任务", runs: "运行", needAll: "此页面还显示其他集群，需要能读取所有分组的权限。",
      cell: "集群", here: "本集群", state: "状态", answers: "正常", "code.unreachable": "无法连接", "code.unauthorized": "令牌无效",
      "code.forbidden": "令牌无权读取", "code.unknown": "缺少所需接口", "code.redirects": "返回重定向", "code.failing": "出错", "code.busy": "过于繁忙",
      "code.refused": "不接受该查询", "code.malformed": "返回内容无效", "code.too_large": "返回内容过大",
      open: "未结束的运行", failed: "24 小时内失败", executors: "执行器", nodes: "节点", version: "版本", seen: "最近应答", console: "打开其控制台",
      sum: "全部集群合计", missing_one: "缺少 1 个集群的数据", missing_other: "缺少 {count} 个集群的数据", search: "在所有集群中搜索", searched: "“{text}”的搜索结果",
      none: "已应答的集群中没有符合的名称。", cut: "未全部显示：请输入更完整的名称。", groups: "分组",
      job: "任务", handler: "处理器", schedule: "调度", next: "下次触发", run: "运行", due: "计划时间", message: "消息", noJobs: "已应答的集群中没有符合的任务。", noRuns: "已应答的集群中没有符合的运行。",
      jobName: "名称、描述或处理器", allOpenOrFailed: "运行中或失败",
    },
  },
  menu: [{to: "/cells", label: "title", icon: "⬢", permission: "read"}],
  pages: [{name: "cells", path: "/cells/:tab?", title: "title", load: () => import("./page.js")}],
};
