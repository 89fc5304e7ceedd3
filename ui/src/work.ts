// The worker's tasks: parses a request or a file, computes everything that the pages draw, and
// searches files. Separate from worker.ts, so that it can run in the page where a worker is not
// permitted. Start at answer().

import type { OutlineAnswer, Span } from './api';
import { criticalPath, type Path } from './model/critical';
import { readFile } from './model/files';
import { spansWith } from './model/find';
import { type Layers, layersOf } from './model/layers';
import { fromAnswer, fromSpans, Malformed } from './model/outline';
import { corrected } from './model/skew';
import { arrange, type Tree } from './model/tree';

export interface Opened {
  tree: Tree;
  path: Path;
  layers: Layers;
  /** Number of further requests in the file. */
  others: number;
}

export type Task =
  | { what: 'open'; bytes: ArrayBuffer }
  | { what: 'read'; key: string; text: string }
  | { what: 'again'; key: string }
  | { what: 'spans'; key: string; id: string }
  | { what: 'find'; key: string; text: string };

export type Done =
  | { what: 'opened'; opened: Opened }
  | { what: 'spans'; spans: Span[] }
  | { what: 'found'; ids: string[] }
  | { what: 'failed'; status: number; words: string };

/** Maximum number of open files. */
const FILES_MAX = 4;
const files = new Map<string, { traceId: string; spans: Span[]; others: number }>();

export function answer(task: Task): Done {
  try {
    switch (task.what) {
      case 'open': {
        const text = new TextDecoder().decode(task.bytes);
        return { what: 'opened', opened: build(arrange(fromAnswer(JSON.parse(text) as OutlineAnswer)), 0) };
      }
      case 'read': {
        const file = readFile(task.text);
        files.set(task.key, file);
        for (const key of files.keys()) {
          if (files.size <= FILES_MAX) break;
          files.delete(key);
        }
        return { what: 'opened', opened: build(arrange(fromSpans(file.traceId, file.spans)), file.others) };
      }
      case 'again': {
        const file = files.get(task.key);
        if (file === undefined) return { what: 'failed', status: 410, words: 'This file is no longer open. Open it again.' };
        return { what: 'opened', opened: build(arrange(fromSpans(file.traceId, file.spans)), file.others) };
      }
      case 'spans': {
        const all = files.get(task.key)?.spans ?? [];
        return { what: 'spans', spans: all.filter((span) => span.id === task.id).slice(0, 100) };
      }
      case 'find':
        return { what: 'found', ids: spansWith(files.get(task.key)?.spans ?? [], task.text) };
    }
  } catch (error) {
    return failed(error);
  }
}

/** Returns the same request with corrected clocks. */
export const withClocks = ({ tree, others }: Opened): Opened => build(arrange(corrected(tree)), others);

function build(tree: Tree, others: number): Opened {
  return { tree, path: criticalPath(tree), layers: layersOf(tree), others };
}

function failed(error: unknown): Done {
  if (error instanceof Malformed) return { what: 'failed', status: 422, words: error.message };
  if (error instanceof SyntaxError) return { what: 'failed', status: 0, words: 'The server’s answer is not JSON.' };
  return { what: 'failed', status: 0, words: String(error) };
}
