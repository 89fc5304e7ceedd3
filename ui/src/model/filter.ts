// Builds text of the filter language: combines conditions, quotes values, and finds which completions fit at the
// cursor. The server alone evaluates filters.

export const FIELDS: { name: string; about: string; then: string }[] = [
  { name: 'service', about: 'service that recorded the span', then: ' == "' },
  { name: 'name', about: 'operation', then: ' == "' },
  { name: 'duration', about: 'of the span: 5ms, 2s', then: ' > ' },
  { name: 'trace.duration', about: 'of the trace’s root span', then: ' > ' },
  { name: 'error', about: 'the span failed', then: ' ' },
  { name: 'status', about: 'error, ok, unset', then: ' == ' },
  { name: 'kind', about: 'client, server …', then: ' == ' },
  { name: 'remote', about: 'remote service of the call', then: ' == "' },
  { name: 'root', about: 'span without a parent', then: ' ' },
  { name: 'any', about: 'any text of the span', then: ' == "' },
  { name: 'annotation', about: 'text of an annotation', then: ' == "' },
  { name: 'event', about: 'name of an event; event.KEY is its attribute', then: ' == "' },
  { name: 'link', about: 'trace that a link leads to; link.KEY is its attribute', then: ' == "' },
  { name: 'trace_id', about: 'hexadecimal', then: ' == "' },
  { name: 'start', about: 'nanoseconds since 1970', then: ' >= ' },
];

export const KINDS = ['client', 'server', 'producer', 'consumer', 'internal'];
export const STATUSES = ['error', 'ok', 'unset'];
const OPERATORS = ['==', '!=', '>', '>=', '<', '<='];
const TEXTS = ['service', 'name', 'remote', 'remote_service', 'annotation', 'event', 'link', 'kind', 'any', 'status', 'trace_id'];

/** Quotes text for the filter language. A star is escaped, so that it matches only a star. */
export function quote(text: string): string {
  // The language has escapes for these characters.
  const plain = text.replace(/[\\"*]/g, '\\$&').replace(/\n/g, '\\n').replace(/\t/g, '\\t').replace(/\r/g, '\\r');
  return `"${plain}"`;
}

/** Combines conditions with `&&`; empty ones are skipped. */
export function all(...parts: (string | null | undefined)[]): string {
  const used = parts.map((part) => part?.trim() ?? '').filter((part) => part !== '');
  return used.length < 2 ? (used[0] ?? '') : used.map((part) => (hasOr(part) ? `(${part})` : part)).join(' && ');
}

/** Whether `||` occurs outside of quotes and brackets, or a quote is open, so that the text needs brackets. */
function hasOr(text: string): boolean {
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === '\\' && isQuoted) at += 1;
    else if (sign === '"') isQuoted = !isQuoted;
    else if (!isQuoted && sign === '(') depth += 1;
    else if (!isQuoted && sign === ')') depth -= 1;
    else if (!isQuoted && depth === 0 && text.startsWith('||', at)) return true;
    if (depth < 0) return true;
  }
  return isQuoted || depth !== 0;
}

/** Returns a tag's name in the filter language. Keys that are not identifiers are quoted. */
export function tagField(key: string): string {
  const isName = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(key);
  return `tag.${isName ? key : quote(key)}`;
}

/** Returns the condition that a field or tag has this value; null if the filter language has none. `key` is a name from
 * the server's comparison. */
export function condition(key: string, value: string): string | null {
  if (key === 'service' || key === 'name') return `${key} == ${quote(value)}`;
  if (key === 'kind') return KINDS.includes(value) ? `kind == ${value}` : null;
  if (key === 'status' && value === 'error') return 'error';
  if (key === 'status') return STATUSES.includes(value) ? `status == ${value}` : null;
  return key === '' ? null : `${tagField(key)} == ${quote(value)}`;
}

/** The kind of completion that fits at the cursor. */
export type Wanted =
  | { what: 'field'; prefix: string; from: number }
  | { what: 'operator'; prefix: string; from: number }
  | { what: 'word'; words: string[]; prefix: string; from: number }
  | { what: 'value'; field: string; prefix: string; from: number; isQuoted: boolean }
  | { what: 'join'; prefix: string; from: number }
  | { what: 'nothing'; prefix: ''; from: number };

/** Finds which completion fits after the text before the cursor. */
export function wanted(before: string): Wanted {
  const nothing: Wanted = { what: 'nothing', prefix: '', from: before.length };
  // An open quote: completes a value of the field before it.
  const quotes = openQuote(before);
  if (quotes >= 0) {
    const field = /([\w.$]+)\s*(?:==|!=)\s*$/.exec(before.slice(0, quotes));
    const prefix = before.slice(quotes + 1).replace(/\\(.)/g, '$1');
    return field ? { what: 'value', field: field[1], prefix, from: quotes, isQuoted: true } : nothing;
  }
  const compared = /([\w.$]+)\s*(?:==|!=|<=|>=|<|>)\s*([\w.]*)$/.exec(before);
  if (compared) {
    const from = before.length - compared[2].length;
    if (compared[1] === 'status') return { what: 'word', words: STATUSES, prefix: compared[2], from };
    if (compared[1] === 'kind') return { what: 'word', words: KINDS, prefix: compared[2], from };
    if (compared[1].endsWith('duration')) {
      const number = /^\d+$/.exec(compared[2]);
      const words = number ? ['us', 'ms', 's'].map((unit) => compared[2] + unit) : [];
      return { what: 'word', words, prefix: compared[2], from };
    }
    if (compared[1] === 'start' || compared[2] !== '') return nothing;
    return { what: 'value', field: compared[1], prefix: '', from, isQuoted: false };
  }
  // An expression begins at the start, after a bracket, or after `&&` or `||`.
  const field = /(?:^|[(!]|&&|\|\|)\s*([\w.$]*)$/.exec(before);
  if (field) return { what: 'field', prefix: field[1], from: before.length - field[1].length };
  const after = /([\w.$]+)\s+([=!<>]*)$/.exec(before);
  const isLone = after && ['error', 'root'].includes(after[1]);
  if (after && !isLone && !/[\d"]/.test(after[1][0]) && !KINDS.includes(after[1])) {
    return { what: 'operator', prefix: after[2], from: before.length - after[2].length };
  }
  const join = /["\w)]\s+([&|]*)$/.exec(before);
  return join ? { what: 'join', prefix: join[1], from: before.length - join[1].length } : nothing;
}

/** Returns the operators that a field supports. */
export function operators(field: string): string[] {
  return TEXTS.includes(field) ? OPERATORS.slice(0, 2) : OPERATORS;
}

function openQuote(text: string): number {
  let open = -1;
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === '\\' && open >= 0) at += 1;
    else if (text[at] === '"') open = open < 0 ? at : -1;
  }
  return open;
}
