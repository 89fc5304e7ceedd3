// Settings and state of all pages: token, theme, time zone, width of names, time of the last
// refresh, and the server's counters.

import { ask, type CountersAnswer, type Params, Refusal } from '../api';
import { type Theme, themeOf } from '../draw/theme';
import { useUtc } from '../format';

export type Look = 'system' | 'light' | 'dark';

const TOKEN = 'blkkin-token';
const LOOK = 'blkkin-look';
const ZONE = 'blkkin-zone';
const NAME_WIDTH = 'blkkin-name-width';
/** Default width of the names in a waterfall, in percent. */
const NAME_WIDTH_FIRST = 44;

/** The browser may deny access to storage; then settings last until the page is left. */
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
    // Without storage the setting lasts until the page is left.
  }
}

const prefersDark = matchMedia('(prefers-color-scheme: dark)');

class Settings {
  token = $state(read('sessionStorage', TOKEN));
  /** The server refused a request without a token or with the current one. */
  needsToken = $state(false);
  isUtc = $state(read('localStorage', ZONE) === 'utc');
  look = $state<Look>((read('localStorage', LOOK) || 'system') as Look);
  #systemIsDark = $state(prefersDark.matches);
  /** Time of the last refresh; the end of ranges that end now. */
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

  /** Switches between light and dark. `look` becomes `system` if that gives the same theme. */
  turn(): void {
    const wanted = this.isDark ? 'light' : 'dark';
    this.look = (wanted === 'dark') === this.#systemIsDark ? 'system' : wanted;
    write('localStorage', LOOK, this.look === 'system' ? '' : this.look);
  }

  /** Width of the names in a waterfall, in percent. */
  get nameWidth(): number {
    const kept = Number(read('localStorage', NAME_WIDTH));
    return kept >= 15 && kept <= 75 ? kept : NAME_WIDTH_FIRST;
  }

  keepNameWidth(percent: number): void {
    if (percent !== this.nameWidth) write('localStorage', NAME_WIDTH, percent === NAME_WIDTH_FIRST ? '' : percent.toFixed(1));
  }

  /** Switches between UTC and the browser's time zone. */
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

/** Sends a request with the token. */
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
