// Details that lists show beyond the search results: why a trace failed, loaded when its row
// becomes visible, and the operation of an example. They are loaded a few at a time, and cached.

import type { FoundAnswer, OutlineAnswer, Span, Summary, TraceAnswer } from '../api';
import { type Failure, failureIn } from '../model/event';
import { fromAnswer, idOf } from '../model/outline';
import { arrange } from '../model/tree';
import { call } from './settings.svelte';

/** Maximum number of concurrent requests, so that other requests to the server are not delayed. */
const AT_ONCE = 2;
const KEPT_MAX = 2000;
/** Up to WHOLE_MAX spans, a trace is loaded completely; up to OUTLINE_MAX, as columns. Of larger traces, only some
 * failed spans are loaded. */
const WHOLE_MAX = 100;
const OUTLINE_MAX = 5000;
const SOME = 6;

const kept = new Map<string, Promise<unknown>>();
const waiting: (() => void)[] = [];
let running = 0;

function next(): void {
  while (running < AT_ONCE && waiting.length > 0) {
    running += 1;
    waiting.pop()?.();
  }
}

/** Loads each key once, and again after a failure. The latest request is served first, since its row is visible. */
function once<T>(key: string, question: () => Promise<T>): Promise<T> {
  const known = kept.get(key);
  if (known !== undefined) return known as Promise<T>;
  if (kept.size >= KEPT_MAX) kept.clear();
  const answer = new Promise<void>((start) => waiting.push(start)).then(question).finally(() => {
    running -= 1;
    next();
  });
  kept.set(key, answer);
  answer.catch(() => kept.delete(key));
  next();
  return answer;
}

const spansOf = async (traceId: string, span?: string): Promise<Span[]> => (await call<TraceAnswer>(`trace/${traceId}`, { span })).spans;

export function failureOf({ traceId, spans, errors }: Summary): Promise<Failure | null> {
  return once(`failure ${traceId} ${spans} ${errors}`, async () => {
    if (spans <= WHOLE_MAX) return failureIn(await spansOf(traceId));
    if (spans <= OUTLINE_MAX) return failureInLarge(traceId);
    const { ids } = await call<FoundAnswer>(`find/${traceId}`, { filter: 'error' });
    const some = (await Promise.all(ids.slice(0, SOME).map((id) => spansOf(traceId, id)))).flat();
    // Only some of the failed spans were loaded, so failures cannot be counted.
    const failure = failureIn(some);
    return failure === null ? null : { ...failure, began: 1, passedOn: 0 };
  });
}

async function failureInLarge(traceId: string): Promise<Failure | null> {
  const tree = arrange(fromAnswer(await call<OutlineAnswer>(`outline/${traceId}`, { limit: OUTLINE_MAX })));
  const first = tree.origins.indexOf(1);
  if (first < 0) return null;
  const failure = failureIn(await spansOf(traceId, idOf(tree, first)));
  const [began, failed] = [tree.origins, tree.errors].map((rows) => rows.reduce((sum, each) => sum + each, 0));
  return failure === null ? null : { ...failure, began, passedOn: failed - began };
}

/** Returns one of the spans with this id. */
export const exampleOf = (traceId: string, id: string): Promise<Span | undefined> => once(`span ${traceId} ${id}`, async () => (await spansOf(traceId, id))[0]);

/** Calls back once a node becomes visible. */
export function whenSeen(node: HTMLElement, seen: () => void): { destroy: () => void } {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    seen();
  }, { rootMargin: '120px' });
  observer.observe(node);
  return { destroy: () => observer.disconnect() };
}
