export {Fragment, createContext, h, render} from "preact";
export {useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState} from "preact/hooks";
export {batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect} from "@preact/signals";
import htm from "htm";
import {h} from "preact";

// control characters, and those that turn a text around or cannot be seen; a sign is put where they were
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]/g;
/** A name as it is shown in one line: nothing hides in it, and none turns what stands around it. */
export const plain = (text) => (typeof text === "string" ? text.replace(UNSEEN, "\ufffd") : text);
// what people named stands in <bdi>, wherever it is shown
export const html = htm.bind((type, props, ...children) => h(type, props, ...(type === "bdi" ? children.map(plain) : children)));
