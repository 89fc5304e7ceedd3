// Groups the spans of a trace by operation, with their count and self time. Start at operationsOf().

import type { Tree } from './tree';

export interface Operation {
  service: string;
  name: string;
  spans: number;
  errors: number;
  selfNs: number;
}

export function operationsOf(tree: Tree): Operation[] {
  const all = new Map<number, Operation>();
  const word = (at: number) => (at < 0 ? '' : tree.strings[at]);
  for (let row = 0; row < tree.ends.length; row += 1) {
    const key = (tree.services[row] + 1) * (tree.strings.length + 1) + tree.names[row] + 1;
    let operation = all.get(key);
    if (operation === undefined) {
      operation = { service: word(tree.services[row]), name: word(tree.names[row]), spans: 0, errors: 0, selfNs: 0 };
      all.set(key, operation);
    }
    operation.spans += 1;
    operation.errors += tree.errors[row];
    operation.selfNs += tree.selfs[row] || 0;
  }
  return [...all.values()];
}
