// What the form of a job holds, and how it becomes what the API takes.
import {get} from "../../api.js";

/** What a new job has; the same as the API's defaults, but that a cron expression is what most jobs want. */
export const NEW = {
  group_id: null, name: "", description: "", schedule_type: "CRON", schedule_conf: "", timezone: "UTC", start_ms: null, end_ms: null,
  misfire_policy: "fire_once", misfire_threshold_ms: null, jitter_ms: 0, calendar_exclude: [], calendar_require: [],
  glue_type: "BEAN", handler: "", param: "", glue_source: "",
  route_strategy: "FIRST", route_options: "", block_strategy: "SERIAL_EXECUTION", block_scope: "executor", timeout_s: 0,
  max_retries: 0, retry_backoff: "fixed", retry_delay_ms: 0, retry_delays_ms: [], retry_max_delay_ms: 0, retry_jitter_pct: 0,
  delivery: "at_least_once", recover_lost: false, wait_for_executor_s: 0, join_mode: "any", retention_days: 0, log_retention_days: 0,
  enabled: false,
};
/** Fields of an existing job that its form changes. */
export const EDITED = Object.keys(NEW).filter((name) => !["group_id", "enabled", "glue_source"].includes(name));
const LISTS = new Set(["retry_delays_ms"]);

const toField = (name, value) => (LISTS.has(name) ? value.join(", ") : value);
const fromField = (name, value) => {
  if (LISTS.has(name)) return String(value).split(/[\s,]+/).filter(Boolean).map((one) => (/^\d+$/.test(one) ? Number(one) : one));
  return value;
};

/** A job as the form holds it. */
export const toForm = (job, names = EDITED) => Object.fromEntries(names.map((name) => [name, toField(name, job[name])]));
/** The form's values of these fields as the API takes them. */
export const toBody = (values, names) => Object.fromEntries(names.map((name) => [name, fromField(name, values[name])]));
export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
export const changed = (values, base) => EDITED.filter((name) => !same(values[name], base[name]));

/** The schedule in a form, as the preview takes it; blanks of an unfinished form are left out. */
export const scheduleIn = (values, job) => ({
  schedule_type: values.schedule_type, schedule_conf: values.schedule_conf, timezone: values.timezone || "UTC", start_ms: values.start_ms, end_ms: values.end_ms,
  calendar_exclude: values.calendar_exclude, calendar_require: values.calendar_require,
  // a rate keeps its phase unless type or configuration change
  anchor_ms: job && job.schedule_type === values.schedule_type && job.schedule_conf === values.schedule_conf ? job.anchor_ms : null,
});

/** What this node has for a job to choose: {schedules, routers, glue}. */
export async function loadChoices(abort) {
  const {items} = await get("plugins", {}, {abort});
  const of = (kind) => [...new Set(items.filter((item) => item.enabled).flatMap((item) => item.registers).filter((item) => item.kind === kind).map((item) => item.name))].sort();
  return {schedules: of("schedule type"), routers: of("router"), glue: of("glue type")};
}
