// Interprets the text of the search box: a trace id, words to search for, or a filter. Start at meaningOf().

import { FIELDS, KINDS, STATUSES, quote } from './filter';

export type Meaning =
  | { what: 'nothing' }
  /** `isSure` is false if the id may also be a word. */
  | { what: 'trace'; id: string; isSure: boolean }
  | { what: 'words'; words: string[]; filter: string }
  | { what: 'filter'; filter: string };

/** Words that are a filter if they are the whole text. */
const ALONE = ['error', 'root', 'duration', 'start', 'time'];

export function meaningOf(text: string): Meaning {
  const plain = text.trim();
  if (plain === '') return { what: 'nothing' };
  const id = traceIn(plain);
  if (id !== null) return { what: 'trace', ...id };
  const words = wordsIn(plain);
  if (words === null) return { what: 'filter', filter: plain };
  return { what: 'words', words, filter: words.map((word) => `any == ${pattern(word)}`).join(' && ') };
}

/** Finds a trace id in the text: alone, in an address of a page, in a `traceparent`, or compared with an id field. */
export function traceIn(text: string): { id: string; isSure: boolean } | null {
  const found =
    /\btraces?\/([0-9a-f]{1,32})(?=$|[?/#&])/i.exec(text) ??
    /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/i.exec(text) ??
    /^(?:trace[._]?id|tid)\s*(?:={1,2}|:)\s*"?(?:0x)?([0-9a-f]{1,32})"?$/i.exec(text);
  if (found !== null) return { id: found[1].toLowerCase(), isSure: true };
  const alone = text.replace(/^0x/i, '').replace(/^([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})$/i, '$1$2$3$4$5');
  if (!/^[0-9a-f]{4,32}$/i.test(alone) || !/\d/.test(alone)) return null;
  return { id: alone.toLowerCase(), isSure: alone.length === 32 || alone.length === 16 };
}

/** Splits text into words and quoted phrases; null if it contains anything else, or only one of ALONE. */
function wordsIn(text: string): string[] | null {
  const words: string[] = [];
  let rest = text;
  while (rest !== '') {
    const found = /^"((?:[^"\\]|\\.)*)"\s*/.exec(rest) ?? /^([^\s"=<>!&|()$]+)\s*/.exec(rest);
    if (found === null) return null;
    words.push(found[1]);
    rest = rest.slice(found[0].length);
  }
  return words.length === 1 && ALONE.includes(words[0]) ? null : words;
}

const pattern = (word: string): string => `"*${quote(word).slice(1, -1)}*"`;

/** Strings, numbers with units, names with their parts, and single characters. */
const TOKEN = /"(?:[^"\\]|\\.)*"|\d[\w.]*|\$?[\p{L}_](?:[\p{L}\p{N}_:]|\.(?=[\p{L}_])|\."(?:[^"\\]|\\.)*"|\["(?:[^"\\]|\\.)*"\])*|./gsu;

/** Returns the names in a filter that are no built-in fields and therefore keys of tags. */
export function tagsIn(filter: string): string[] {
  const known = [...FIELDS.map((field) => field.name), ...KINDS, ...STATUSES, 'has', 'time', 'remote_service', 'tag'];
  const names = (filter.match(TOKEN) ?? []).filter((token) => /^[\p{L}_]/u.test(token) && !known.includes(token));
  // `a["b"]` is equivalent to `a."b"`.
  const bare = (name: string) => name.replace(/\[("(?:[^"\\]|\\.)*")\]/g, '.$1');
  const unquoted = (name: string) => name.replace(/"((?:[^"\\]|\\.)*)"/g, (_, key: string) => key.replace(/\\(.)/g, '$1'));
  return [...new Set(names.map((name) => unquoted(bare(name)).replace(/^tag\./, '')))];
}

/** Returns the known word with the smallest edit distance, or null if every distance is too large. */
export function nearest(word: string, known: Iterable<string>): string | null {
  let [best, least]: [string | null, number] = [null, Math.max(1, Math.floor(word.length / 3)) + 1];
  for (const each of known) {
    const away = distance(word.toLowerCase(), each.toLowerCase());
    if (away < least) [best, least] = [each, away];
  }
  return best;
}

/** Edit distance: letters changed, removed, added, or exchanged with their neighbours. */
function distance(a: string, b: string): number {
  let [before, last] = [[] as number[], Array.from({ length: b.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    [before, last] = [last, row];
  }
  return last[b.length];
}
