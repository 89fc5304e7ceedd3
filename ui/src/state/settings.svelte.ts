// What holds for all pages: the token, light or dark, when it was last asked, what the server says of itself.

import { ask, type CountersAnswer, type Params, Refusal } from '../api';
import { type Theme, themeOf } from '../draw/theme';
import { useUtc } from '../format';

export type Look = 'system' | 'light' | 'dark';

const TOKEN = 'blkkin-token';
const LOOK = 'blkkin-look';
const ZONE = 'blkkin-zone';
const NAME_WIDTH = 'blkkin-name-width';
/** Percent of a waterfall that names take if nobody chose. */
const NAME_WIDTH_FIRST = 44;

/** Storage may be refused; then things are known until the page is left. */
function read(storage: 'sessionStorage' | 'localStorage', key: string): string {
  try {
    return globalThis[storage].getItem(key) ?? '';
  } catch {
    return '';
  }
}

function write(storage: 'sessionStorage' | 'localStorage', key: string, value: string): void {
  try {
    if (value === '') globalThis[storage].removeItem(key);
    else globalThis[storage].setItem(key, value);
  } catch {
    // Then it is known until the page is left.
  }
}

const prefersDark = matchMedia('(prefers-color-scheme: dark)');

class Settings {
  token = $state(read('sessionStorage', TOKEN));
  /** The server has refused what was asked without a token, or with this one. */
  needsToken = $state(false);
  isUtc = $state(read('localStorage', ZONE) === 'utc');
  look = $state<Look>((read('localStorage', LOOK) || 'system') as Look);
  #systemIsDark = $state(prefersDark.matches);
  /** When the pages were last asked to look again; ranges that end now end then. */
  nowMs = $state(Date.now());
  counters = $state.raw<CountersAnswer | null>(null);
  isReached = $state(true);

  readonly isDark: boolean = $derived(this.look === 'system' ? this.#systemIsDark : this.look === 'dark');
  readonly theme: Theme = $derived(themeOf(this.isDark));

  constructor() {
    useUtc(this.isUtc);
    prefersDark.addEventListener('change', (event) => {
      this.#systemIsDark = event.matches;
    });
  }

  setToken(token: string): void {
    this.token = token.trim();
    write('sessionStorage', TOKEN, this.token);
    this.needsToken = false;
    this.again();
  }

  /** The other one; as the system where that is the same. */
  turn(): void {
    const wanted = this.isDark ? 'light' : 'dark';
    this.look = (wanted === 'dark') === this.#systemIsDark ? 'system' : wanted;
    write('localStorage', LOOK, this.look === 'system' ? '' : this.look);
  }

  /** Percent of a waterfall that names take. */
  get nameWidth(): number {
    const kept = Number(read('localStorage', NAME_WIDTH));
    return kept >= 15 && kept <= 75 ? kept : NAME_WIDTH_FIRST;
  }

  keepNameWidth(percent: number): void {
    if (percent !== this.nameWidth) write('localStorage', NAME_WIDTH, percent === NAME_WIDTH_FIRST ? '' : percent.toFixed(1));
  }

  /** Times in UTC, or where the reader is. */
  turnZone(): void {
    this.isUtc = !this.isUtc;
    useUtc(this.isUtc);
    write('localStorage', ZONE, this.isUtc ? 'utc' : '');
  }

  again(): void {
    this.nowMs = Date.now();
  }
}

export const settings = new Settings();

/** Asks the server, with the token. */
export async function call<T>(path: string, params: Params, signal?: AbortSignal): Promise<T> {
  try {
    const answer = await ask<T>(path, params, settings.token, signal);
    settings.isReached = true;
    return answer;
  } catch (error) {
    if (error instanceof Refusal) noteRefusal(error);
    throw error;
  }
}

export function noteRefusal(refusal: Refusal): void {
  if (refusal.status === 401) settings.needsToken = true;
  settings.isReached = refusal.status !== 0;
}
