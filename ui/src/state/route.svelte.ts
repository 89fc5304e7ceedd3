// Which page is shown, and what of it: all of that is in the address behind `#`, so that it can be kept and sent.

import { type Range, rangeOf } from '../model/range';
import { fromZipkin } from '../model/zipkin';
import { settings } from './settings.svelte';

export const PAGES = ['search', 'trace', 'map', 'latency', 'compare'] as const;
export type Page = (typeof PAGES)[number];
export type Values = Record<string, string | number | bigint | null | undefined>;

interface Place {
  page: Page;
  /** The name in the address of a page that does not exist, or nothing. */
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
    // It is shown as it is, and not found.
  }
  return { page, unknown: name === page ? '' : name, id, params: new URLSearchParams(query ?? '') };
}

/** Where an address of Zipkin's pages leads to. */
function zipkin(hash: string): string | null {
  const found = /^#\/zipkin\/([^?]*)(?:\?(.*))?$/s.exec(hash);
  return found === null ? null : fromZipkin(found[1], new URLSearchParams(found[2] ?? ''));
}

class Route {
  #place = $state.raw<Place>(parse(location.hash));

  /** The step in the browser's history, the same again after Back. */
  #entry = $state('');
  /** The address that was read last. */
  #read: string | null = null;

  constructor() {
    const read = () => {
      const translated = zipkin(location.hash);
      if (translated !== null) history.replaceState(history.state, '', translated);
      // Back raises both events, and is one step.
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

  /** The address of a page. The time that is looked at goes along. */
  to(page: Page, values: Values = {}, id = ''): string {
    const params = new URLSearchParams();
    for (const name of ['range', 'start', 'end']) {
      const value = this.get(name);
      if (value !== '') params.set(name, value);
    }
    return `#/${page}${id === '' ? '' : `/${encodeURIComponent(id)}`}${query(params, values)}`;
  }

  /** The address of this page with some things changed. */
  with(values: Values): string {
    const { page, id, params } = this.#place;
    const path = id === '' ? page : `${page}/${encodeURIComponent(id)}`;
    return `#/${path}${query(new URLSearchParams(params), values)}`;
  }

  go(address: string): void {
    if (address === location.hash) settings.again();
    else location.hash = address;
  }

  /** The same in place of this page, so that Back does not lead here again. */
  goInstead(address: string): void {
    history.replaceState(history.state, '', address);
    this.#read = location.hash;
    this.#place = parse(address);
  }

  /** Changes what the address says without a step that the browser goes back over. */
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
