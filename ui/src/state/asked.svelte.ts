// The state of a request to the server: none, an answer, or a refusal. The last answer stays while
// the next one loads and while the server is unreachable; a refusal replaces it unless `keeps` is
// set.

import { Refusal } from '../api';
import { noteRefusal } from './settings.svelte';

export class Asked<T> {
  answer = $state.raw<T | null>(null);
  refusal = $state.raw<Refusal | null>(null);
  isBusy = $state(false);
  #controller: AbortController | null = null;

  /** `keeps`: whether the answer stays beside a refusal, for answers that can only be out of date. */
  constructor(readonly keeps = false) {}

  /** Sends a request and cancels the previous one. Returns null if the request is refused or cancelled. */
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
      // The header shows that the server is unreachable.
      if (refusal.status === 0 && this.answer !== null) return null;
      if (!this.keeps) this.answer = null;
      this.refusal = refusal;
      return null;
    } finally {
      if (this.#controller === controller) this.isBusy = false;
    }
  }

  /** Removes the answer and cancels the pending request. */
  clear(): void {
    this.#controller?.abort();
    this.answer = null;
    this.refusal = null;
    this.isBusy = false;
  }
}
