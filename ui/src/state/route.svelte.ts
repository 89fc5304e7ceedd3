// The current page and its state. All of it is in the address after `#`, so that it can be bookmarked and shared.

import { type Range, rangeOf } from '../model/range';
import { fromZipkin } from '../model/zipkin';
import { settings } from './settings.svelte';

export const PAGES = ['search', 'trace', 'map', 'latency', 'compare'] as const;
export type Page = (typeof PAGES)[number];
export type Values = Record<string, string | number | bigint | null | undefined>;

interface Place {
  page: Page;
  /** The unknown page name in the address, or `''`. */
  unknown: string;
  id: string;
  params: URLSearchParams;
}

function parse(hash: string): Place {
  const [path, query] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [name, ...rest] = path.split('/');
  const page = PAGES.find((each) => each === name) ?? 'search';
  let id = rest.join('/');
  try {
    id = decodeURIComponent(id);
  } catch {
    // An invalid encoding stays as it is, and no trace has such an id.
  }
  return { page, unknown: name === page ? '' : name, id, params: new URLSearchParams(query ?? '') };
}

/** Translates an address of Zipkin's pages. */
function zipkin(hash: string): string | null {
  const found = /^#\/zipkin\/([^?]*)(?:\?(.*))?$/s.exec(hash);
  return found === null ? null : fromZipkin(found[1], new URLSearchParams(found[2] ?? ''));
}

class Route {
  #place = $state.raw<Place>(parse(location.hash));

  /** Id of the entry in the browser's history; Back restores it. */
  #entry = $state('');
  /** The address that was parsed last. */
  #read: string | null = null;

  constructor() {
    const read = () => {
      const translated = zipkin(location.hash);
      if (translated !== null) history.replaceState(history.state, '', translated);
      // Back fires both events; the second one is ignored.
      if (location.hash === this.#read) return;
      this.#read = location.hash;
      this.#place = parse(location.hash);
      this.#note();
    };
    read();
    addEventListener('hashchange', read);
    addEventListener('popstate', read);
  }

  get page(): Page {
    return this.#place.page;
  }

  get unknown(): string {
    return this.#place.unknown;
  }

  get entry(): string {
    return this.#entry;
  }

  #note(): void {
    let entry: unknown = history.state?.entry;
    if (typeof entry !== 'string') {
      entry = `${Date.now()}.${Math.random()}`;
      history.replaceState({ entry }, '');
    }
    this.#entry = entry as string;
  }

  get id(): string {
    return this.#place.id;
  }

  get(name: string): string {
    return this.#place.params.get(name) ?? '';
  }

  readonly range: Range = $derived(
    rangeOf(this.#place.params.get('range'), this.#place.params.get('start'), this.#place.params.get('end'), settings.nowMs),
  );

  /** Returns the address of a page, with the current time range. */
  to(page: Page, values: Values = {}, id = ''): string {
    const params = new URLSearchParams();
    for (const name of ['range', 'start', 'end']) {
      const value = this.get(name);
      if (value !== '') params.set(name, value);
    }
    return `#/${page}${id === '' ? '' : `/${encodeURIComponent(id)}`}${query(params, values)}`;
  }

  /** Returns the address of this page with changed parameters. */
  with(values: Values): string {
    const { page, id, params } = this.#place;
    const path = id === '' ? page : `${page}/${encodeURIComponent(id)}`;
    return `#/${path}${query(new URLSearchParams(params), values)}`;
  }

  go(address: string): void {
    if (address === location.hash) settings.again();
    else location.hash = address;
  }

  /** Replaces the current page, so that Back does not return to it. */
  goInstead(address: string): void {
    history.replaceState(history.state, '', address);
    this.#read = location.hash;
    this.#place = parse(address);
  }

  /** Changes parameters of the address without a new entry in the history. */
  replace(values: Values): void {
    const address = this.with(values);
    if (address === location.hash) return;
    history.replaceState(history.state, '', address);
    this.#read = location.hash;
    this.#place = parse(address);
  }
}

function query(params: URLSearchParams, values: Values): string {
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === '') params.delete(name);
    else params.set(name, value.toString());
  }
  const text = params.toString();
  return text === '' ? '' : `?${text}`;
}

export const route = new Route();
