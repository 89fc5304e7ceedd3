// Finds rows of a trace by words: in service, name, id, kind and annotations. Tags are not in the columns; spansWith()
// and the server search those. Start at findRows().

import type { Span } from '../api';
import { idOf, KINDS } from './outline';
import { quote } from './filter';
import type { Tree } from './tree';

/** Marks the rows that contain all of these words, ignoring case. */
export function findRows(tree: Tree, text: string): { rows: Uint8Array; count: number } {
  const rows = new Uint8Array(tree.ends.length).fill(1);
  for (const word of wordsOf(text)) {
    const has = Uint8Array.from(tree.strings, (each) => (each.toLowerCase().includes(word) ? 1 : 0));
    const noted = new Uint8Array(rows.length);
    for (let note = 0; note < tree.notes.rows.length; note += 1) {
      const value = tree.notes.values[note];
      if (value >= 0 && has[value]) noted[tree.notes.rows[note]] = 1;
    }
    const isId = /^[0-9a-f]{4,16}$/.test(word);
    for (let row = 0; row < rows.length; row += 1) {
      if (rows[row] === 0) continue;
      const [service, name] = [tree.services[row], tree.names[row]];
      const isFound = (service >= 0 && has[service]) || (name >= 0 && has[name]) || noted[row] || KINDS[tree.kinds[row]] === word || (isId && idOf(tree, row).includes(word));
      rows[row] = isFound ? 1 : 0;
    }
  }
  return { rows, count: rows.reduce((sum, each) => sum + each, 0) };
}

const wordsOf = (text: string): string[] => text.toLowerCase().split(/\s+/).filter((each) => each !== '');

/** Returns the filter for spans that contain all of these words. */
export const filterFor = (text: string): string => wordsOf(text).map((word) => `any == "*${quote(word).slice(1, -1)}*"`).join(' && ');

/** Returns the ids of a file's spans that contain all of these words, in tags too. */
export function spansWith(spans: Span[], text: string): string[] {
  const words = wordsOf(text);
  const has = (span: Span): boolean => {
    const texts = [span.local?.service, span.remote?.service, span.name, ...span.annotations.map((note) => note.value), ...span.tags.map((tag) => String(tag.value))];
    const all = texts.map((each) => (each ?? '').toLowerCase());
    return words.every((word) => all.some((each) => each.includes(word)));
  };
  return spans.filter(has).map((span) => span.id.padStart(16, '0'));
}

/** Marks the rows with these ids in addition, and counts the marked rows. */
export function markIds(tree: Tree, rows: Uint8Array, ids: string[]): { rows: Uint8Array; count: number } {
  const wanted = new Set(ids);
  const marked = Uint8Array.from(rows, (each, row) => (each || wanted.has(idOf(tree, row)) ? 1 : 0));
  return { rows: marked, count: marked.reduce((sum, each) => sum + each, 0) };
}

/** Returns the next or the previous marked row and wraps around; -1 if no row is marked. */
export function nextMatch(marked: Uint8Array, row: number, by: 1 | -1): number {
  const length = marked.length;
  for (let step = 1; step <= length; step += 1) {
    const at = (((row < 0 && by < 0 ? 0 : row) + step * by) % length + length) % length;
    if (marked[at]) return at;
  }
  return -1;
}
