// Sends a request by zipkin's TRANSPORT, `v1`, `v2` or `scribe`, to the URL or port; prints the
// expected answer of Zipkin's API.
'use strict';

const { Annotation, BatchRecorder, ExplicitContext, InetAddress, Tracer, jsonEncoder } = require('zipkin');

const [transport, to] = process.argv.slice(2);
let sent;
let logger;
if (transport === 'scribe') {
  const { ScribeLogger } = require('zipkin-transport-scribe');
  const { Scribe } = require('scribe');
  // The logger does not report delivery, so the test intercepts the answer to its flush.
  logger = new ScribeLogger({ scribeHost: '127.0.0.1', scribePort: Number(to), scribeInterval: 50 });
  const flush = Scribe.prototype.flush;
  sent = new Promise((resolve) => {
    Scribe.prototype.flush = function () {
      const { client } = this;
      const log = client.Log;
      client.Log = (queue, callback) => log.call(client, queue, (error, code) => {
        callback(error, code);
        if (!error && code === 0) resolve();
      });
      flush.call(this);
    };
  });
} else {
  const { HttpLogger } = require('zipkin-transport-http');
  const encoder = transport === 'v1' ? jsonEncoder.JSON_V1 : jsonEncoder.JSON_V2;
  logger = new HttpLogger({ endpoint: to, httpInterval: 50, jsonEncoder: encoder });
  sent = new Promise((resolve, reject) => {
    logger.on('success', resolve);
    logger.on('error', reject);
  });
}

const ctxImpl = new ExplicitContext();
const recorder = new BatchRecorder({ logger });
const tracer = new Tracer({ ctxImpl, recorder, localServiceName: 'Gateway', traceId128Bit: true });

const BEGIN = 1793491200000000;
const root = tracer.createRootId();
const span = (id, record) => tracer.letId(id, () => {
  tracer.recordServiceName('Gateway');
  tracer.recordAnnotation(new Annotation.LocalAddr({ host: new InetAddress('10.0.0.7'), port: 8000 }));
  record();
});
const note = (annotation, after) => tracer.recordAnnotation(annotation, BEGIN + after);

const call = tracer.createChildId(root);
const work = tracer.createChildId(root);
span(root, () => {
  tracer.recordRpc('GET');
  note(new Annotation.ServerRecv(), 0);
  tracer.recordBinary('http.path', '/größe');
  note(new Annotation.Message('parsed'), 10);
});
span(call, () => {
  tracer.recordRpc('Lookup');
  note(new Annotation.ClientSend(), 100);
  tracer.recordAnnotation(new Annotation.ServerAddr({
    serviceName: 'Directory', host: new InetAddress('10.0.0.8'), port: 389,
  }));
  tracer.recordBinary('error', 'refused');
  note(new Annotation.ClientRecv(), 900);
});
span(work, () => {
  note(new Annotation.LocalOperationStart('Sort'), 1000);
  // Zipkin v1 has the service of a span only in annotations and tags, so a local span needs a tag.
  tracer.recordBinary('rows', '64');
  note(new Annotation.LocalOperationStop(), 1500);
});
tracer.letId(root, () => note(new Annotation.ServerSend(), 2000));

// The Thrift library writes each UTF-16 unit of a tag as one byte.
const path = transport === 'scribe' ? Buffer.from('/größe', 'latin1').toString() : '/größe';
const told = (id, parent, more) => ({
  traceId: root.traceId,
  id: id.spanId,
  ...(parent && { parentId: parent.spanId }),
  localEndpoint: { serviceName: 'gateway', ipv4: '10.0.0.7', port: 8000 },
  ...more,
});
const expected = [
  told(root, null, {
    kind: 'SERVER',
    name: 'get',
    timestamp: BEGIN,
    duration: 2000,
    annotations: [{ timestamp: BEGIN + 10, value: 'parsed' }],
    tags: { 'http.path': path },
  }),
  told(call, root, {
    kind: 'CLIENT',
    name: 'lookup',
    timestamp: BEGIN + 100,
    duration: 800,
    remoteEndpoint: { serviceName: 'directory', ipv4: '10.0.0.8', port: 389 },
    tags: { error: 'refused' },
  }),
  told(work, root, { name: 'sort', timestamp: BEGIN + 1000, duration: 500, tags: { rows: '64' } }),
];
// The logger's timers do not keep the program alive until it has sent.
setTimeout(() => process.exit(1), 20000);
sent.then(() => {
  console.log(JSON.stringify(expected));
  process.exit(0);
});
