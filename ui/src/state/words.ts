// Completions for filters, with names and values from the server. Recent answers are cached.

import { FIELDS, operators, tagField, wanted } from '../model/filter';
import { quote } from '../model/filter';
import { call } from './settings.svelte';

export interface Choice {
  /** The shown text. */
  words: string;
  about: string;
  text: string;
}

export interface Choices {
  from: number;
  choices: Choice[];
  /** The completed list, with choices from the server. */
  rest?: Promise<Choices>;
}

const LIMIT = 12;
const KEPT_MS = 20_000;
const kept = new Map<string, { ms: number; values: Promise<unknown[]> }>();

function fields(params: Record<string, string | number>): Promise<unknown[]> {
  const key = JSON.stringify(params);
  const known = kept.get(key);
  if (known !== undefined && Date.now() - known.ms < KEPT_MS) return known.values;
  if (kept.size > 300) kept.clear();
  const values = call<{ values: unknown[] }>('fields', params).then((answer) => answer.values);
  kept.set(key, { ms: Date.now(), values });
  values.catch(() => kept.delete(key));
  return values;
}

export async function services(prefix = '', limit = 200): Promise<string[]> {
  return (await fields({ of: 'services', prefix, limit })) as string[];
}

/** Returns the keys of tags, up to `limit`. */
export async function keys(prefix = '', limit = 1000): Promise<string[]> {
  return ((await fields({ of: 'keys', prefix, limit })) as { key: string }[]).map(({ key }) => key);
}

export async function remotes(service: string): Promise<string[]> {
  return (await fields({ of: 'remoteServices', service, prefix: '', limit: 1000 })) as string[];
}

export async function names(service: string, prefix = ''): Promise<string[]> {
  return ofServices('names', service, prefix);
}

/** Returns the values of a service; without a service, those of the first eight services. */
async function ofServices(of: string, service: string, prefix: string): Promise<string[]> {
  const from = service === '' ? (await services()).slice(0, 8) : [service];
  const found = await Promise.all(from.map((each) => fields({ of, service: each, prefix, limit: 50 })));
  return [...new Set(found.flat() as string[])].sort();
}

/** Returns the completions at the end of this text. */
export async function choicesFor(before: string): Promise<Choices> {
  const want = wanted(before);
  const plain = (words: string[], after: string): Choice[] =>
    words.filter((word) => word.startsWith(want.prefix)).map((word) => ({ words: word, about: '', text: word + after }));
  switch (want.what) {
    case 'field': {
      const prefix = want.prefix.toLowerCase();
      const known = FIELDS.filter((field) => field.name.startsWith(prefix)).map((field) => ({ words: field.name, about: field.about, text: field.name + field.then }));
      const tags = async (): Promise<Choices> => {
        const found = (await fields({ of: 'keys', prefix: prefix.replace(/^tag\./, ''), limit: 40 })) as { key: string; spans: number }[];
        const choices = found.map(({ key, spans }) => ({ words: tagField(key), about: `tag of ${spans.toLocaleString('en')} spans`, text: `${tagField(key)} == ` }));
        return { from: want.from, choices: [...known, ...choices].slice(0, 24) };
      };
      return { from: want.from, choices: known, rest: tags() };
    }
    case 'operator': {
      const field = /([\w.$]+)\s+[=!<>]*$/.exec(before)?.[1] ?? '';
      return { from: want.from, choices: plain(operators(field), ' ') };
    }
    case 'word':
      return { from: want.from, choices: plain(want.words, ' ').filter((choice) => choice.words !== want.prefix) };
    case 'join':
      return { from: want.from, choices: plain(['&&', '||'], ' ') };
    case 'value': {
      const values = await valuesOf(want.field, want.prefix, before);
      return { from: want.from, choices: values.slice(0, LIMIT * 2).map((value) => ({ words: value, about: '', text: `${quote(value)} ` })) };
    }
    default:
      return { from: before.length, choices: [] };
  }
}

function valuesOf(field: string, prefix: string, before: string): Promise<string[]> {
  const service = /service == "([^"*\\]+)"/.exec(before)?.[1] ?? '';
  if (field === 'service') return services(prefix);
  if (field === 'name') return names(service, prefix);
  if (field === 'remote' || field === 'remote_service') return ofServices('remoteServices', service, prefix);
  if (['annotation', 'any', 'event', 'link', 'start', 'time'].includes(field) || /^(event|link)[.[]/.test(field)) return Promise.resolve([]);
  return fields({ of: 'values', key: field.replace(/^tag\./, ''), prefix, limit: 50 }) as Promise<string[]>;
}
