// Between instants and what a clock on the wall of the shown zone says, as fields for dates and times need it.
import {zoneShown} from "./i18n.js";

const clocks = new Map();
function partsOf(ms) {
  const name = zoneShown();
  if (!clocks.has(name)) clocks.set(name, new Intl.DateTimeFormat("en-US", {timeZone: name, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit"}));
  return Object.fromEntries(clocks.get(name).formatToParts(ms).map((part) => [part.type, part.value]));
}

/** An instant as a field of the kind datetime-local holds it, to the minute or to the second. */
export function toLocal(ms, {seconds = false} = {}) {
  if (ms === null || ms === undefined || ms === "" || Number.isNaN(Number(ms))) return "";
  const {year, month, day, hour, minute, second} = partsOf(Number(ms));
  return `${year.padStart(4, "0")}-${month}-${day}T${hour}:${minute}${seconds ? `:${second}` : ""}`;
}

/** The instant of such a text; null if it is none. In an hour that a zone leaves out it is the one after. */
export function fromLocal(text) {
  const wanted = Date.parse(`${text}Z`);
  if (Number.isNaN(wanted)) return null;
  const shift = (ms) => Date.parse(`${toLocal(ms)}Z`) - Math.floor(ms / 60_000) * 60_000;
  const near = wanted - shift(wanted);
  const found = wanted - shift(near);
  return toLocal(found) === toLocal(near) || shift(found) === wanted - found ? found : near;
}
