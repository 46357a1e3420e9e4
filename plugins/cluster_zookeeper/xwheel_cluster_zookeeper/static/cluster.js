// What the package cluster adds to the console.
export default {
  words: {
    en: {
      title: "Package cluster", "mode.master-slave-node": "master and slaves", "mode.standby-node": "standby", mode: "Mode", master: "Master", since: "Master since",
      epoch: "Elections", connection: "ZooKeeper", "link.connected": "answers", "link.suspended": "does not answer", "link.lost": "no session", age: "As of",
      away: "The cluster's store cannot be reached: what stands here is {age} old. Operations wait until it can.", never: "The cluster's store has not been reached yet.",
      alive: "{count} alive", lost: "{count} lost", started: "{count} jobs shall run", waiting: "{count} wait for a node", retrying: "{count} are tried again", failed: "{count} failed",
      node: "Node", role: "Role", address: "Address", pid: "Process", jobs: "Jobs", slots: "At most", tags: "Tags", version: "xwheel, Python", up: "Up since", state: "State",
      "state.up": "alive", "state.lost": "lost", seen: "last seen", anyNumber: "any number", none: "No node has joined yet: start one with xwheel node.",
      "role.Master": "master", "role.Slave": "slave", "role.Backup": "backup", rebalance: "Make loads even", rebalanced: "{count} jobs will move",
      drain: "Drain", resume: "Resume", drained: "drained", drainedBy: "by {name}", drains: "{name} gives its jobs to others", resumes: "{name} may have jobs again",
      drainTitle: "Drain the node {name}?", drainBody: "Its jobs move to other nodes, and it is given none until it is resumed, also after it was started again. Runs under way end where they began. Where no other node can have a job, it stays.",
      askTitle: "Make the loads of all nodes even?", askBody: "As few jobs as it takes move to other nodes. Runs under way end where they began.",
    },
    "zh-CN": {
      title: "任务包集群", "mode.master-slave-node": "主从", "mode.standby-node": "主备", mode: "模式", master: "主节点", since: "当选时间",
      epoch: "选举次数", connection: "ZooKeeper", "link.connected": "正常", "link.suspended": "无响应", "link.lost": "无会话", age: "数据时间",
      away: "无法连接集群存储：以下为 {age} 前的数据。恢复后将继续执行等待中的操作。", never: "尚未连接到集群存储。",
      alive: "{count} 个在线", lost: "{count} 个失联", started: "{count} 个任务应运行", waiting: "{count} 个等待节点", retrying: "{count} 个重试中", failed: "{count} 个失败",
      node: "节点", role: "角色", address: "地址", pid: "进程", jobs: "任务数", slots: "上限", tags: "标签", version: "xwheel、Python", up: "启动时间", state: "状态",
      "state.up": "在线", "state.lost": "失联", seen: "最近在线", anyNumber: "不限", none: "还没有节点加入：请用 xwheel node 启动。",
      "role.Master": "主", "role.Slave": "从", "role.Backup": "备", rebalance: "均衡负载", rebalanced: "将迁移 {count} 个任务",
      drain: "排空", resume: "恢复", drained: "已排空", drainedBy: "操作人：{name}", drains: "{name} 的任务将迁移到其他节点", resumes: "{name} 可以重新接收任务",
      drainTitle: "排空节点 {name}？", drainBody: "其任务将迁移到其他节点；恢复前即使重启也不再分配任务。运行中的任务在原节点结束；没有其他可用节点的任务保持不动。",
      askTitle: "均衡所有节点的负载？", askBody: "仅迁移必要的任务，运行中的任务在原节点结束。",
    },
  },
  menu: [{to: "/package-cluster", label: "title", icon: "⬡", permission: "read"}],
  pages: [{name: "packageCluster", path: "/package-cluster", title: "title", load: () => import("./nodes.js")}],
};
