// Tests of translating addresses of Zipkin's pages.

import { expect, it } from 'vitest';
import { fromZipkin } from './zipkin';

const check = (address: string, expected: string): void => {
  const [path, query] = address.split('?');
  expect(decodeURIComponent(fromZipkin(path, new URLSearchParams(query)).replaceAll('+', ' ')), address).toBe(expected);
};

it('leads to the same trace, the map and the same search', () => {
  check('traces/000000000000004D', '#/trace/000000000000004d');
  check('dependency?startTs=1764000000000&endTs=1764000060000', '#/map?start=1764000000000000000&end=1764000060000000000');
  check('dependency', '#/map');
  check('', '#/search');
  check('?serviceName=front&spanName=get&minDuration=5ms&lookback=15m&limit=10', '#/search?range=15m&service=front&name=get&filter=duration >= 5000us');
  check('?serviceName=all&annotationQuery=error and http.method=GET and sent', '#/search?filter=error && tag.http.method == "GET" && (annotation == "sent" || has(tag.sent))');
  check('?endTs=1764000060000&lookback=60000', '#/search?start=1764000000000000000&end=1764000060000000000');
});
