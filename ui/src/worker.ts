// The worker thread that parses and arranges requests, so that the page stays responsive.

import { answer, type Done, type Opened, type Task } from './work';

addEventListener('message', (event: MessageEvent<{ number: number; task: Task }>) => {
  const { number, task } = event.data;
  const done = answer(task);
  postMessage({ number, done }, { transfer: buffers(done) });
});

/** Columns are transferred to the page without copying. */
function buffers(done: Done): Transferable[] {
  if (done.what !== 'opened') return [];
  const { tree, path, layers }: Opened = done.opened;
  const columns = [tree, tree.notes, tree.own, path, layers, layers.pieces].flatMap((each) => Object.values(each));
  const views = columns.filter((column) => ArrayBuffer.isView(column));
  return [...new Set(views.map((view) => view.buffer as ArrayBuffer))];
}
