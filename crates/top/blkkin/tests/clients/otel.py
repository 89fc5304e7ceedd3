"""Sends a request by OpenTelemetry's exporter WHICH to ENDPOINT; prints what Zipkin's API has to say of it."""

import json
import sys

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

which, endpoint = sys.argv[1:]
if which == "otlp-http":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter(endpoint=endpoint)
elif which == "otlp-http-gzip":
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter(endpoint=endpoint, compression=Compression.Gzip)
elif which == "otlp-grpc":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True)
elif which == "zipkin-json":
    from opentelemetry.exporter.zipkin.json import ZipkinExporter

    exporter = ZipkinExporter(endpoint=endpoint)
elif which == "zipkin-proto":
    from opentelemetry.exporter.zipkin.proto.http import ZipkinExporter

    exporter = ZipkinExporter(endpoint=endpoint)

results = []
export = exporter.export
exporter.export = lambda spans: results.append(export(spans)) or results[-1]

provider = TracerProvider(resource=Resource({"service.name": "Shop", "host.name": "node-1"}))
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("checkout", "1.2")

BEGIN_US = 1793491200000000
at = lambda us: (BEGIN_US + us) * 1000

root = tracer.start_span("POST /cart", kind=SpanKind.SERVER, start_time=at(0))
within = set_span_in_context(root)
root.set_attribute("http.response.status_code", 500)
root.set_attribute("cached", False)
root.set_attribute("ratio", 0.5)
root.set_attribute("text", "größe")
root.set_status(Status(StatusCode.ERROR, "no such cart"))
call = tracer.start_span("reserve", context=within, kind=SpanKind.CLIENT, start_time=at(100))
call.set_attribute("peer.service", "Stock")
call.add_event("sent", timestamp=at(150))
call.add_event("retried", {"count": 2}, timestamp=at(160))
call.set_status(Status(StatusCode.OK))
call.end(end_time=at(900))
send = tracer.start_span("order", context=within, kind=SpanKind.PRODUCER, start_time=at(1000))
send.end(end_time=at(1001))
take = tracer.start_span("order", context=set_span_in_context(send), kind=SpanKind.CONSUMER, start_time=at(2000))
take.end(end_time=at(2500))
plan = tracer.start_span("plan", context=within, start_time=at(3000))
plan.end(end_time=at(3001))
root.end(end_time=at(5000))
provider.shutdown()
assert results == [SpanExportResult.SUCCESS] * 5, results

number = lambda span: f"{span.get_span_context().span_id:016x}"
is_zipkin = which.startswith("zipkin")
of_all = {"host.name": "node-1", "otel.scope.name": "checkout", "otel.scope.version": "1.2"}
if is_zipkin:
    # Zipkin's exporters send the service name as a tag, too, and the scope also under its former
    # name.
    of_all |= {"service.name": "Shop", "otel.library.name": "checkout", "otel.library.version": "1.2"}


def span(span, parent, kind, name, start, duration, tags={}, **more):
    # Zipkin's exporters set the debug flag on every sampled span.
    told = {
        "debug": True if is_zipkin else None,
        "traceId": f"{span.get_span_context().trace_id:032x}",
        "id": number(span),
        "parentId": parent and number(parent),
        "kind": kind,
        "name": name,
        "timestamp": BEGIN_US + start,
        "duration": duration,
        "localEndpoint": {"serviceName": "shop"},
        "tags": of_all | tags,
        **more,
    }
    return {key: value for key, value in told.items() if value is not None}


status = {"otel.status_code": "ERROR", "error": "no such cart"}
numbers = {"http.response.status_code": "500", "cached": "false", "ratio": "0.5", "text": "größe"}
peer = {"peer.service": "Stock", "otel.status_code": "OK"}
values = ['{"sent": {}}', '{"retried": {"count": 2}}'] if is_zipkin else ["sent", '"retried": {"count":2}']
annotations = [{"timestamp": BEGIN_US + us, "value": value} for us, value in zip([150, 160], values)]
# The server derives the remote service from `peer.service` in OpenTelemetry's format only.
remote = None if is_zipkin else {"serviceName": "stock"}
expected = [
    span(root, None, "SERVER", "post /cart", 0, 5000, status | numbers),
    span(call, root, "CLIENT", "reserve", 100, 800, peer, annotations=annotations, remoteEndpoint=remote),
    span(send, root, "PRODUCER", "order", 1000, 1),
    span(take, send, "CONSUMER", "order", 2000, 500),
    span(plan, root, None, "plan", 3000, 1),
]
print(json.dumps(expected))
