// A question to the server and what has become of it: nothing yet, an answer, or words of why not. The last answer
// stays while the next is waited for.

import { Refusal } from '../api';
import { noteRefusal } from './settings.svelte';

export class Asked<T> {
  answer = $state.raw<T | null>(null);
  refusal = $state.raw<Refusal | null>(null);
  isBusy = $state(false);
  #controller: AbortController | null = null;

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
      this.refusal = error instanceof Refusal ? error : new Refusal(0, String(error));
      noteRefusal(this.refusal);
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
