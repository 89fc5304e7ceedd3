// State that outlives a page: traces selected for a comparison, and lists that Back restores.

import type { SearchAnswer, Summary } from '../api';
import type { Counts } from '../draw/counts';

export interface More {
  of: SearchAnswer | null;
  requests: Summary[];
  next?: string;
}

interface List {
  answer: SearchAnswer;
  more: More;
  counts: Counts | null;
  future: number;
  scroll: number;
}

const LISTS_MAX = 20;

class Kept {
  /** Ids of up to two traces. */
  marked = $state.raw<string[]>([]);
  #lists = new Map<string, List>();

  mark(id: string): void {
    this.marked = this.marked.includes(id) ? this.marked.filter((each) => each !== id) : [...this.marked.slice(-1), id];
  }

  leave(entry: string, list: List): void {
    this.#lists.delete(entry);
    this.#lists.set(entry, list);
    if (this.#lists.size > LISTS_MAX) this.#lists.delete([...this.#lists.keys()][0]);
  }

  list(entry: string): List | undefined {
    return this.#lists.get(entry);
  }
}

export const kept = new Kept();
