export {Fragment, createContext, h, render} from "preact";
export {useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState} from "preact/hooks";
export {batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect} from "@preact/signals";
import htm from "htm";
import {h} from "preact";
export const html = htm.bind(h);
