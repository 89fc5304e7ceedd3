// Opens requests from the server or a file, by way of the worker. Start at openTrace().

import { address, askBytes, type FoundAnswer, Refusal, type Span, type TraceAnswer } from '../api';
import { filterFor } from '../model/find';
import { answer, type Done, type Opened, type Task } from '../work';
import workerUrl from '../worker?worker&url';
import { call, settings } from './settings.svelte';

/** Number of rows that are loaded first, and the maximum. */
export const ROWS = 100_000;
export const ROWS_MAX = 250_000;

interface Policy {
  createScriptURL(url: string): unknown;
}

let worker: Worker | null | undefined;
let numbers = 0;
const waiting = new Map<number, (done: Done) => void>();

function start(): Worker | null {
  try {
    const types = (globalThis as { trustedTypes?: { createPolicy(name: string, rules: object): Policy } }).trustedTypes;
    // The policy permits no other script than the worker.
    const policy = types?.createPolicy('blkkin-worker', { createScriptURL: () => workerUrl });
    const started = new Worker((policy?.createScriptURL('') ?? workerUrl) as string, { type: 'module' });
    started.onmessage = (event: MessageEvent<{ number: number; done: Done }>) => {
      waiting.get(event.data.number)?.(event.data.done);
      waiting.delete(event.data.number);
    };
    started.onerror = () => {
      for (const tell of waiting.values()) tell({ what: 'failed', status: 0, words: 'The worker failed. There may be too little memory.' });
      waiting.clear();
      worker = undefined;
    };
    return started;
  } catch {
    return null;
  }
}

function run(task: Task): Promise<Done> {
  worker ??= start();
  if (worker === null) return Promise.resolve(answer(task));
  numbers += 1;
  const number = numbers;
  const posted = worker;
  return new Promise((resolve) => {
    waiting.set(number, resolve);
    posted.postMessage({ number, task }, task.what === 'open' ? [task.bytes] : []);
  });
}

export const isFile = (id: string): boolean => id.startsWith('file-');

function opened(done: Done): Opened {
  if (done.what === 'opened') return done.opened;
  throw done.what === 'failed' ? new Refusal(done.status, done.words) : new Refusal(0, '');
}

export async function openTrace(id: string, rows = ROWS, signal?: AbortSignal): Promise<Opened> {
  if (isFile(id)) return opened(await run({ what: 'again', key: id }));
  const asked = askBytes(address(`outline/${encodeURIComponent(id)}`, { limit: rows }), settings.token, signal);
  // The worker starts while the server computes the answer.
  worker ??= start();
  return opened(await run({ what: 'open', bytes: await asked }));
}

let files = 0;

/** Reads a file, and returns the key of its request. */
export async function openFile(file: File): Promise<string> {
  if (file.size > 500_000_000) throw new Refusal(413, 'The file is larger than 500 MB.');
  files += 1;
  const key = `file-${files}`;
  opened(await run({ what: 'read', key, text: await file.text() }));
  return key;
}

/** Returns the ids of the spans that contain all of these words, in tags too. */
export async function findSpans(id: string, text: string, signal: AbortSignal): Promise<string[]> {
  if (isFile(id)) {
    const done = await run({ what: 'find', key: id, text });
    return done.what === 'found' ? done.ids : [];
  }
  return (await call<FoundAnswer>(`find/${encodeURIComponent(id)}`, { filter: filterFor(text) }, signal)).ids;
}

export async function spansOf(id: string, span: string, signal: AbortSignal): Promise<Span[]> {
  if (isFile(id)) {
    const done = await run({ what: 'spans', key: id, id: span });
    return done.what === 'spans' ? done.spans : [];
  }
  const found = await call<TraceAnswer>(`trace/${encodeURIComponent(id)}`, { span }, signal);
  return found.spans;
}
