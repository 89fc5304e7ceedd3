// Finds rows of a request by words: a service, a name, an id, an annotation. Start at findRows().

import { idOf } from './outline';
import type { Tree } from './tree';

/** Which rows have all of these words, in any case. */
export function findRows(tree: Tree, text: string): { rows: Uint8Array; count: number } {
  const rows = new Uint8Array(tree.ends.length).fill(1);
  for (const word of text.toLowerCase().split(/\s+/).filter((each) => each !== '')) {
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
      const isFound = (service >= 0 && has[service]) || (name >= 0 && has[name]) || noted[row] || (isId && idOf(tree, row).includes(word));
      rows[row] = isFound ? 1 : 0;
    }
  }
  return { rows, count: rows.reduce((sum, each) => sum + each, 0) };
}

/** The next row behind this one that is marked, or before it; around the end. -1 if none is. */
export function nextMatch(marked: Uint8Array, row: number, by: 1 | -1): number {
  const length = marked.length;
  for (let step = 1; step <= length; step += 1) {
    const at = (((row < 0 && by < 0 ? 0 : row) + step * by) % length + length) % length;
    if (marked[at]) return at;
  }
  return -1;
}
