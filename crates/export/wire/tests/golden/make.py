"""Makes the batches of this folder with senders that others wrote. See README.md."""

import sys


def write(name, data):
    with open(name, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def py_zipkin(encodings):
    from py_zipkin import Encoding, Kind
    from py_zipkin.encoding import _encoders
    from py_zipkin.encoding._helpers import Span, create_endpoint

    web = create_endpoint(port=8080, service_name="Web", host="10.0.0.1")
    osd = create_endpoint(port=6800, service_name="osd.0", host="2001:db8::7")
    trace_id = "17133d482ba4f605"
    spans = [
        Span(
            trace_id=trace_id,
            name="GET /disk",
            parent_id=None,
            span_id=trace_id,
            kind=Kind.CLIENT,
            timestamp=1472470996.199,
            duration=0.207,
            local_endpoint=web,
            remote_endpoint=osd,
            annotations={"queued": 1472470996.238, "sent": 1472470996.403},
            tags={"http.path": "/disk/0", "größe": "4096", "empty": ""},
        ),
        Span(
            trace_id=trace_id,
            name="write",
            parent_id=trace_id,
            span_id="5a77c85e8f3f1e0d",
            kind=Kind.SERVER,
            timestamp=1472470996.25,
            duration=0.1,
            local_endpoint=osd,
            remote_endpoint=web,
            shared=True,
            debug=True,
        ),
        Span(
            trace_id=trace_id,
            name="fsync",
            parent_id="5a77c85e8f3f1e0d",
            span_id="00000000000000ab",
            kind=Kind.LOCAL,
            timestamp=1472470996.26,
            duration=0.01,
            local_endpoint=osd,
            tags={"error": "Input/output error"},
        ),
    ]
    for name, encoding in encodings.items():
        encoder = _encoders.get_encoder(getattr(Encoding, encoding))
        write(name, encoder.encode_queue([encoder.encode_span(span) for span in spans]))


def open_telemetry():
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.exporter.zipkin.json.v1 import JsonV1Encoder
    from opentelemetry.exporter.zipkin.json.v2 import JsonV2Encoder
    from opentelemetry.exporter.zipkin.node_endpoint import NodeEndpoint
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
    from opentelemetry.trace.span import TraceState
    from opentelemetry.sdk.trace import Event
    import os

    os.environ["OTEL_SERVICE_NAME"] = "Disk Service"

    def context(span_id, state=()):
        trace = 0x5B8EFFF798038103D269B633813FC60C
        return SpanContext(trace, span_id, False, TraceFlags(1), TraceState(state))

    resource = Resource({"service.name": "Disk Service", "host.name": "node7", "host.cpus": 16})
    scope = InstrumentationScope("blk", "1.2", attributes={"layer": "block"})
    start = 1544712660000000123
    root = context(0xEEE19B7EC3C1B173, [("vendor", "x")])
    spans = [
        ReadableSpan(
            name="Write block",
            context=root,
            resource=resource,
            instrumentation_scope=scope,
            kind=SpanKind.CLIENT,
            attributes={
                "peer.service": "osd",
                "network.peer.address": "10.1.2.3",
                "network.peer.port": 6800,
                "bytes": 4096,
                "ratio": 0.25,
                "direct": True,
                "offsets": [1, 2, 3],
            },
            events=[
                Event("retried", {"attempt": 2, "why": "timed \"out\""}, start + 500),
                Event("sent", {}, start + 100),
            ],
            links=[Link(context(0xAB), {"cause": "batch"})],
            status=Status(StatusCode.ERROR, "no space"),
            start_time=start,
            end_time=start + 2_000_000,
        ),
        ReadableSpan(
            name="flush",
            context=context(0xEEE19B7EC3C1B174),
            parent=root,
            resource=resource,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.OK),
            start_time=start + 1000,
            end_time=start + 1000,
        ),
    ]
    write("opentelemetry.otlp-proto", encode_spans(spans).SerializeToString())
    node = NodeEndpoint("10.0.0.9", None, 9411)
    write("opentelemetry.zipkin-json", JsonV2Encoder().serialize(spans, node))
    write("opentelemetry.zipkin-v1-json", JsonV1Encoder().serialize(spans, node))


def blkin():
    """A span as blkin's tools send it: ids, a name, and one annotation or one key with a value."""
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TType
    from thrift.transport.TTransport import TMemoryBuffer

    def span(of_annotation):
        out = TBinaryProtocol(TMemoryBuffer())

        def field(kind, number, value, write):
            out.writeFieldBegin("", kind, number)
            write(value)
            out.writeFieldEnd()

        def host():
            out.writeFieldBegin("", TType.STRUCT, 3 if of_annotation else 4)
            field(TType.I32, 1, 0, out.writeI32)
            field(TType.I16, 2, 1, out.writeI16)
            field(TType.STRING, 3, "MOSDOp", out.writeString)
            out.writeFieldStop()

        def items(number, write_items):
            out.writeFieldBegin("", TType.LIST, number)
            out.writeListBegin(TType.STRUCT, 1 if write_items else 0)
            if write_items:
                write_items()
            out.writeListEnd()

        def annotation():
            field(TType.I64, 1, 1398080130123456, out.writeI64)
            field(TType.STRING, 2, "Message allocated", out.writeString)
            host()
            out.writeFieldStop()

        def key_and_value():
            field(TType.STRING, 1, "Type", out.writeString)
            field(TType.STRING, 2, "MOSDOp", out.writeString)
            field(TType.I32, 3, 6, out.writeI32)
            host()
            out.writeFieldStop()

        field(TType.I64, 1, -3500000000000000001, out.writeI64)
        field(TType.STRING, 3, "Message", out.writeString)
        field(TType.I64, 4, 42, out.writeI64)
        field(TType.I64, 5, 41, out.writeI64)
        items(6, annotation if of_annotation else None)
        items(8, None if of_annotation else key_and_value)
        out.writeFieldStop()
        return out.trans.getvalue()

    write("blkin-annotation.zipkin-thrift-span", span(True))
    write("blkin-key.zipkin-thrift-span", span(False))


if sys.argv[1] == "old":
    py_zipkin({"py_zipkin.zipkin-thrift": "V1_THRIFT", "py_zipkin.zipkin-v1-json": "V1_JSON"})
    blkin()
else:
    py_zipkin({"py_zipkin.zipkin-json": "V2_JSON", "py_zipkin.zipkin-proto": "V2_PROTO3"})
    open_telemetry()
