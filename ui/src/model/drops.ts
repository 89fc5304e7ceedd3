// Counts of spans, messages and connections that were refused or lost, with a text for each cause
// and the times of the first and the last loss.

import type { CountersAnswer } from '../api';
import { clock, day, nanoseconds } from '../format';

export interface Drops {
  words: string;
  count: number;
  /** False for normal operation: removal of expired spans, and refusal of connections above the limit. */
  isFault: boolean;
  /** Times of the first and the last loss since the server started; null if there was none. */
  first: bigint | null;
  last: bigint | null;
}

const KINDS: { place: string; what: string; words: string; isFault?: boolean }[] = [
  { place: 'collector', what: 'spansDropped', words: 'invalid spans rejected' },
  { place: 'collector', what: 'messagesDropped', words: 'messages rejected entirely' },
  { place: 'collector', what: 'messagesTurnedAway', words: 'messages rejected, server full (senders told to retry)' },
  { place: 'server', what: 'connectionsWithoutPlace', words: 'connections refused, limit reached', isFault: false },
  { place: 'store', what: 'spansLost', words: 'spans lost' },
  { place: 'store', what: 'damages', words: 'damaged regions of the store' },
  { place: 'store', what: 'spansExpired', words: 'spans expired (age or size limit)', isFault: false },
];

export function drops(counters: CountersAnswer | null): Drops[] {
  if (counters === null) return [];
  return KINDS.map(({ place, what, words, isFault = true }) => {
    const found = (counters.drops ?? []).filter((drop) => drop.what === what && drop.place.split('.')[0] === place);
    const times = (name: 'firstNs' | 'lastNs') => found.map((drop) => nanoseconds(drop[name])).filter((time) => time !== null);
    const least = (one: bigint | null, other: bigint) => (one === null || other < one ? other : one);
    const greatest = (one: bigint | null, other: bigint) => (one === null || other > one ? other : one);
    return {
      words,
      count: found.reduce((sum, drop) => sum + drop.count, 0),
      isFault,
      first: times('firstNs').reduce<bigint | null>(least, null),
      last: times('lastNs').reduce<bigint | null>(greatest, null),
    };
  });
}

/** Formats the times as `between 10:03:12 and 10:04:40`, with the date where that is not today; as `at 10:03:12` if
 * both are the same; as `before the server started` if one is unknown. */
export function when({ first, last }: Pick<Drops, 'first' | 'last'>, now: bigint): string {
  if (first === null || last === null) return 'before the server started';
  const time = (ns: bigint): string => (day(ns) === day(now) ? clock(ns, 0) : `${day(ns)} ${clock(ns, 0)}`);
  return time(first) === time(last) ? `at ${time(first)}` : `between ${time(first)} and ${time(last)}`;
}
