// Translates addresses of Zipkin's pages, as found in old tickets, to addresses of these pages.

import { all, quote, tagField } from './filter';

/** Translates an address `#/zipkin/…`, to which the server redirects addresses of Zipkin's pages. */
export function fromZipkin(path: string, query: URLSearchParams): string {
  const trace = /^traces\/([0-9a-fA-F]{1,32})$/.exec(path);
  if (trace !== null) return `#/trace/${trace[1].toLowerCase()}`;
  const values = new URLSearchParams();
  const end = ms(query.get('endTs'));
  const lookback = ms(query.get('lookback')) ?? length(query.get('lookback'));
  const start = ms(query.get('startTs')) ?? (end !== null && lookback !== null ? end - lookback : null);
  if (start !== null) values.set('start', `${start}000000`);
  if (end !== null) values.set('end', `${end}000000`);
  if (start === null && end === null && lookback !== null) {
    const names: [number, string][] = [[9e5, '15m'], [3.6e6, '1h'], [2.16e7, '6h'], [8.64e7, '1d'], [6.048e8, '7d']];
    values.set('range', names.find(([most]) => lookback <= most)?.[1] ?? 'all');
  }
  if (/^dependency/.test(path)) return address('map', values);
  const [service, name] = [query.get('serviceName') ?? '', query.get('spanName') ?? ''];
  if (service !== '' && service !== 'all') values.set('service', service);
  if (name !== '' && name !== 'all') values.set('name', name);
  const remote = query.get('remoteServiceName') ?? '';
  const [least, most] = [micros(query.get('minDuration')), micros(query.get('maxDuration'))];
  const filter = all(
    remote === '' ? null : `remote == ${quote(remote)}`,
    least === null ? null : `duration >= ${least}us`,
    most === null ? null : `duration <= ${most}us`,
    ...(query.get('annotationQuery') ?? '').split(' and ').map(term),
  );
  if (filter !== '') values.set('filter', filter);
  return address('search', values);
}

function address(page: string, values: URLSearchParams): string {
  const text = values.toString();
  return text === '' ? `#/${page}` : `#/${page}?${text}`;
}

/** Translates a term of an annotation query: `key=value`, or the key of a tag or an annotation. */
function term(text: string): string {
  const [key, value] = text.trim().split(/=(.*)/s);
  if (key === '') return '';
  if (value === undefined) return key === 'error' ? 'error' : `(annotation == ${quote(key)} || has(${tagField(key)}))`;
  return `${tagField(key)} == ${quote(value)}`;
}

const ms = (text: string | null): number | null => (text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null);
const micros = (text: string | null): number | null => {
  const found = /^(\d+)(us|ms|s)?$/.exec(text ?? '');
  return found === null ? null : Number(found[1]) * ({ us: 1, ms: 1e3, s: 1e6 }[found[2] ?? 'us'] ?? 1);
};

/** Parses `15m`, `2h` or `7d`, Zipkin's format of the lookback. */
function length(text: string | null): number | null {
  const found = /^(\d+)(m|h|d)$/.exec(text ?? '');
  return found === null ? null : Number(found[1]) * ({ m: 6e4, h: 3.6e6, d: 8.64e7 }[found[2]] ?? 1);
}
