// A question to the server and its outcome: nothing yet, an answer, or a refusal. The last answer stays while the next is
// waited for, and while the server cannot be reached; a refusal takes its place.

import { Refusal } from '../api';
import { noteRefusal } from './settings.svelte';

export class Asked<T> {
  answer = $state.raw<T | null>(null);
  refusal = $state.raw<Refusal | null>(null);
  isBusy = $state(false);
  #controller: AbortController | null = null;

  /** `keeps`: whether the answer stays beside a refusal, as where only the age of an answer can be wrong. */
  constructor(readonly keeps = false) {}

  /** Asks, in place of what was asked before. */
  async ask(question: (signal: AbortSignal) => Promise<T>): Promise<T | null> {
    this.#controller?.abort();
    const controller = new AbortController();
    this.#controller = controller;
    this.isBusy = true;
    try {
      const answer = await question(controller.signal);
      if (controller.signal.aborted) return null;
      this.answer = answer;
      this.refusal = null;
      return answer;
    } catch (error) {
      if (controller.signal.aborted) return null;
      const refusal = error instanceof Refusal ? error : new Refusal(0, String(error));
      noteRefusal(refusal);
      // The header says that the server cannot be reached.
      if (refusal.status === 0 && this.answer !== null) return null;
      if (!this.keeps) this.answer = null;
      this.refusal = refusal;
      return null;
    } finally {
      if (this.#controller === controller) this.isBusy = false;
    }
  }

  /** Forgets the answer, and does not wait for another. */
  clear(): void {
    this.#controller?.abort();
    this.answer = null;
    this.refusal = null;
    this.isBusy = false;
  }
}
