// Follows new requests: polls the search every second. Counts requests that arrived too fast to be
// shown, and spans and messages that the server refused or lost meanwhile.

import { type CountersAnswer, Refusal, type SearchAnswer, type Summary } from '../api';
import { drops } from '../model/drops';
import { call, noteRefusal, settings } from './settings.svelte';

const LIMIT = 200;
const SHOWN_MAX = 600;
const EVERY_MS = 1000;
/** Maximum number of pages that are read to count requests that are not shown. */
const PAGES_MAX = 5;
const PAGE = 1000;

export class Live {
  shown = $state.raw<Summary[]>([]);
  isPaused = $state(false);
  isHeld = $state(false);
  isAsked = $state(false);
  /** Requests that arrived while the list was paused or held. */
  waiting = $state(0);
  /** Requests that arrived too fast to be shown, and whether their count is incomplete. */
  missed = $state(0);
  isMissedMore = $state(false);
  /** Spans and messages that the server refused or lost since following began. */
  dropped = $state.raw<{ words: string; count: number; last: bigint | null }[]>([]);
  spans = $state(0);
  refusal = $state.raw<Refusal | null>(null);
  #latest: Summary[] = [];

  pause(): void {
    this.isPaused = !this.isPaused;
    this.#show();
  }

  /** Keeps the rows in place while the pointer or the focus is on them. */
  hold(isHeld: boolean): void {
    this.isHeld = isHeld;
    this.#show();
  }

  #show(): void {
    if (this.isPaused || this.isHeld) return;
    this.shown = this.#latest;
    this.waiting = 0;
  }

  /** Starts following; the returned function stops it. */
  follow(filter: string): () => void {
    const controller = new AbortController();
    this.shown = [];
    this.#latest = [];
    this.isAsked = false;
    this.isPaused = false;
    this.waiting = 0;
    this.missed = 0;
    this.isMissedMore = false;
    this.dropped = [];
    this.spans = 0;
    void this.#run(filter, controller.signal);
    return () => controller.abort();
  }

  async #run(filter: string, signal: AbortSignal): Promise<void> {
    let first: CountersAnswer | null = null;
    while (!signal.aborted) {
      const began = Date.now();
      try {
        const [page, counters] = await Promise.all([
          call<SearchAnswer>('search', { order: 'newest', limit: LIMIT, filter }, signal),
          call<CountersAnswer>('counters', {}, signal),
        ]);
        settings.counters = counters;
        first ??= counters;
        this.#count(first, counters);
        await this.#take(page, filter, signal);
        this.refusal = null;
        this.isAsked = true;
      } catch (error) {
        if (signal.aborted) return;
        this.refusal = error instanceof Refusal ? error : new Refusal(0, String(error));
        noteRefusal(this.refusal);
      }
      await sleep(Math.max(100, EVERY_MS - (Date.now() - began)), signal);
    }
  }

  #count(first: CountersAnswer, now: CountersAnswer): void {
    const before = drops(first);
    this.dropped = drops(now)
      .filter((each) => each.isFault)
      .map((each) => ({
        words: each.words,
        count: each.count - (before.find(({ words }) => words === each.words)?.count ?? 0),
        last: each.last,
      }))
      .filter((each) => each.count > 0);
    this.spans = (now.store.accepted ?? 0) - (first.store.accepted ?? 0);
  }

  async #take(page: SearchAnswer, filter: string, signal: AbortSignal): Promise<void> {
    const known = new Set(this.#latest.map((request) => request.traceId));
    const fresh = page.requests.filter((request) => !known.has(request.traceId));
    // If the whole page is new, more requests may have arrived between it and the previous page.
    if (this.isAsked && known.size > 0 && fresh.length === page.requests.length && page.next !== undefined) {
      await this.#countMissed(page.next, this.#latest[0].startNs, filter, signal);
    }
    const updated = new Map(page.requests.map((request) => [request.traceId, request]));
    const rest = this.#latest.filter((request) => !updated.has(request.traceId));
    const all = [...page.requests, ...rest].sort((a, b) => later(a, b));
    this.#latest = all.slice(0, SHOWN_MAX);
    if (this.isPaused || this.isHeld) this.waiting += fresh.length;
    else this.shown = this.#latest;
  }

  async #countMissed(next: string, since: string, filter: string, signal: AbortSignal): Promise<void> {
    let after: string | undefined = next;
    for (let at = 0; at < PAGES_MAX && after !== undefined; at += 1) {
      const startNs = BigInt(since) + 1n;
      const page: SearchAnswer = await call<SearchAnswer>('search', { order: 'newest', limit: PAGE, filter, startNs, after }, signal);
      this.missed += page.requests.length;
      after = page.next;
    }
    this.isMissedMore ||= after !== undefined;
  }
}

/** Orders newest first. Times are digits, so texts of the same length compare like numbers. */
function later(a: Summary, b: Summary): number {
  if (a.startNs.length !== b.startNs.length) return b.startNs.length - a.startNs.length;
  return a.startNs < b.startNs ? 1 : a.startNs > b.startNs ? -1 : 0;
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}
