// Tests of which differences a comparison shows.

import { expect, it } from 'vitest';
import { telling } from './difference';

const check = (values: [string, string, number, number][], expected: string[]) => {
  const answer = { inside: 200, outside: 2000, values: values.map(([key, value, inside, outside]) => ({ key, value, inside, outside })) };
  expect(telling(answer).map(({ key, value }) => `${key}=${value}`)).toEqual(expected);
};

it('shows what differs, and not what does by chance', () => {
  check([['version', '2.3.1', 172, 260], ['amount', '100.37', 1, 0], ['region', 'eu', 28, 180], ['pool', 'rbd', 110, 1090]], ['version=2.3.1']);
});

it('shows one of two values that exclude each other', () => {
  check([['flag', 'true', 190, 300], ['flag', 'false', 10, 1700]], ['flag=true']);
  // With three values, each is listed.
  check([['zone', 'a', 150, 500], ['zone', 'b', 20, 800]], ['zone=a', 'zone=b']);
});
