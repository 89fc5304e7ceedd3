// Selects the connections of a map to draw and list. A small map is drawn whole; a large one shows the chosen service
// with its neighbours, the services that match the search, or the busiest ones. Start at drawnOf().

import type { Link } from '../api';

/** A map with more services than this is drawn in part unless the reader wants all of it. */
export const WHOLE_MAX = 60;
/** Number of services that are drawn first of a large map. */
export const BUSIEST = 24;

export interface Wanted {
  service: string;
  /** Text that the names of services contain. */
  find: string;
  isWhole: boolean;
}

export interface Drawn {
  links: Link[];
  part: 'all' | 'neighbours' | 'found' | 'busiest';
}

export const namesOf = (links: Link[]): string[] => [...new Set(links.flatMap((link) => [link.parent, link.child]))];

export const isFound = (name: string, find: string): boolean => find !== '' && name.toLowerCase().includes(find.toLowerCase());

/** Returns the connections to list: those of the chosen service or of services that match the search; all, if there are
 * none. */
export function listedOf(links: Link[], { service, find }: Omit<Wanted, 'isWhole'>): Link[] {
  const some =
    service !== '' ? links.filter((link) => link.parent === service || link.child === service) : links.filter((link) => isFound(link.parent, find) || isFound(link.child, find));
  return some.length > 0 ? some : links;
}

export function drawnOf(links: Link[], wanted: Wanted): Drawn {
  if (namesOf(links).length <= WHOLE_MAX) return { links, part: 'all' };
  const listed = listedOf(links, wanted);
  if (listed.length < links.length) return { links: listed, part: wanted.service !== '' ? 'neighbours' : 'found' };
  if (wanted.isWhole) return { links, part: 'all' };
  return { links: busiest(links), part: 'busiest' };
}

/** Returns the connections among at most BUSIEST services, those of the busiest connections. */
function busiest(links: Link[]): Link[] {
  const names = new Set<string>();
  const ordered = [...links].sort((a, b) => b.calls - a.calls || (a.parent < b.parent ? -1 : 1));
  for (const { parent, child } of ordered) {
    if (names.size + Number(!names.has(parent)) + Number(!names.has(child)) > BUSIEST) continue;
    names.add(parent).add(child);
  }
  return links.filter((link) => names.has(link.parent) && names.has(link.child));
}

/** Returns the service with the most incoming and outgoing calls. */
export function busiestService(links: Link[]): string {
  const calls = new Map<string, number>();
  for (const link of links) for (const name of [link.parent, link.child]) calls.set(name, (calls.get(name) ?? 0) + link.calls);
  return [...calls].reduce((best, each) => (each[1] > best[1] ? each : best), ['', 0] as [string, number])[0];
}

/** Returns the percentage of the error colour in a line. It grows with the share of failed calls and is visible for one.
 */
export const errorTint = (errors: number, calls: number): number => (errors === 0 || calls === 0 ? 0 : Math.round(25 + 75 * Math.sqrt(Math.min(1, errors / calls))));
