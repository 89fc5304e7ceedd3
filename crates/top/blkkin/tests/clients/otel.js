// Sends a request by OpenTelemetry's exporter WHICH to ENDPOINT; prints the expected answer of
// Zipkin's API.
'use strict';

const { SpanKind, SpanStatusCode, ROOT_CONTEXT, trace } = require('@opentelemetry/api');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const { BasicTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-base');

const EXPORTERS = {
  'otlp-json': (url) => new (require('@opentelemetry/exporter-trace-otlp-http').OTLPTraceExporter)({ url }),
  'otlp-proto': (url) => new (require('@opentelemetry/exporter-trace-otlp-proto').OTLPTraceExporter)({ url }),
  'otlp-proto-gzip': (url) =>
    new (require('@opentelemetry/exporter-trace-otlp-proto').OTLPTraceExporter)({ url, compression: 'gzip' }),
  'otlp-grpc': (url) => new (require('@opentelemetry/exporter-trace-otlp-grpc').OTLPTraceExporter)({ url }),
  zipkin: (url) => new (require('@opentelemetry/exporter-zipkin').ZipkinExporter)({ url }),
};

const [which, endpoint] = process.argv.slice(2);
const exporter = EXPORTERS[which](endpoint);
const results = [];
const send = exporter.export;
exporter.export = (spans, done) => send.call(exporter, spans, (result) => {
  results.push(result);
  done(result);
});
const provider = new BasicTracerProvider({
  resource: resourceFromAttributes({ 'service.name': 'Shop', 'host.name': 'node-1' }),
  spanProcessors: [new BatchSpanProcessor(exporter)],
});
const tracer = provider.getTracer('checkout', '1.2');

const BEGIN = 1793491200;
const at = (us) => [BEGIN, us * 1000];
const start = (name, parent, kind, us, attributes) => tracer.startSpan(
  name,
  { kind, startTime: at(us), attributes },
  parent ? trace.setSpan(ROOT_CONTEXT, parent) : ROOT_CONTEXT,
);

const root = start('POST /cart', null, SpanKind.SERVER, 0, {
  'http.response.status_code': 500, cached: false, ratio: 0.5, text: 'größe',
});
root.setStatus({ code: SpanStatusCode.ERROR, message: 'no such cart' });
const call = start('reserve', root, SpanKind.CLIENT, 100, { 'peer.service': 'Stock' });
call.addEvent('sent', at(150));
call.addEvent('retried', { count: 2 }, at(160));
call.setStatus({ code: SpanStatusCode.OK });
call.end(at(900));
const put = start('order', root, SpanKind.PRODUCER, 1000);
put.end(at(1001));
const take = start('order', put, SpanKind.CONSUMER, 2000);
take.end(at(2500));
const plan = start('plan', root, SpanKind.INTERNAL, 3000);
plan.end(at(3001));
root.end(at(5000));

const isZipkin = which === 'zipkin';
// Zipkin's exporter sends the service name as a tag, too, and does not send the scope.
const ofAll = isZipkin
  ? { 'host.name': 'node-1', 'service.name': 'Shop' }
  : { 'host.name': 'node-1', 'otel.scope.name': 'checkout', 'otel.scope.version': '1.2' };
const told = (span, parent, kind, name, us, duration, tags, more) => ({
  traceId: span.spanContext().traceId,
  id: span.spanContext().spanId,
  ...(parent && { parentId: parent.spanContext().spanId }),
  ...(kind && { kind }),
  name,
  timestamp: BEGIN * 1000000 + us,
  duration,
  localEndpoint: { serviceName: 'shop' },
  tags: { ...ofAll, ...tags },
  ...more,
});
const note = (us, value) => ({ timestamp: BEGIN * 1000000 + us, value });
const expected = [
  told(root, null, 'SERVER', 'post /cart', 0, 5000, {
    'otel.status_code': 'ERROR',
    error: 'no such cart',
    'http.response.status_code': '500',
    cached: 'false',
    ratio: '0.5',
    text: 'größe',
  }),
  told(call, root, 'CLIENT', 'reserve', 100, 800, { 'peer.service': 'Stock', 'otel.status_code': 'OK' }, {
    annotations: [note(150, 'sent'), note(160, isZipkin ? 'retried' : '"retried": {"count":2}')],
    // The server derives the remote service from `peer.service` in OpenTelemetry's format only.
    ...(!isZipkin && { remoteEndpoint: { serviceName: 'stock' } }),
  }),
  told(put, root, 'PRODUCER', 'order', 1000, 1),
  told(take, put, 'CONSUMER', 'order', 2000, 500),
  told(plan, root, null, 'plan', 3000, 1),
];
provider.forceFlush().then(() => {
  if (results.length !== 1 || results[0].code !== 0) throw new Error(JSON.stringify(results));
  console.log(JSON.stringify(expected));
  process.exit(0);
});
