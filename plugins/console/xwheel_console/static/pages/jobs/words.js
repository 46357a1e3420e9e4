// Names and values of a job's fields in words, and the reasons of runs.
import {duration, has, number, t} from "../../i18n.js";
import {typeWords} from "./schedule.js";
import {dateTime} from "../../i18n.js";

/** The name of a field; the API's own where there are no words. */
export const fieldLabel = (name) => (has(`field.${name}`) ? t(`field.${name}`) : name);
export const valueWords = (name, value) => (has(`value.${name}.${value}`) ? t(`value.${name}.${value}`) : String(value));
/** Reasons of runs are explained by the words of the pages of runs. */
export const reasonWords = (code) => (has(`reason.${code}`) ? t(`reason.${code}`) : code);

/** What a field holds, for people: times, durations, yes and no. */
export function fieldValue(name, value) {
  if (value === null || value === undefined || value === "") return name === "misfire_threshold_ms" ? t("value.default") : "–";
  if (Array.isArray(value)) return value.length ? value.map((one) => (name === "retry_delays_ms" ? duration(one) : String(one))).join(", ") : "–";
  if (typeof value === "boolean") return t(value ? "value.yes" : "value.no");
  if (name === "schedule_type") return typeWords(value);
  if (/^(start|end|anchor)_ms$/.test(name)) return dateTime(value);
  if (name.endsWith("_ms")) return duration(value);
  if (name.endsWith("_s")) return value ? duration(1000 * value) : t("value.none");
  if (name.endsWith("_days")) return value ? t("value.days", {count: value}) : t("value.default");
  if (typeof value === "number") return number(value);
  return typeof value === "object" ? JSON.stringify(value) : valueWords(name, value);
}
