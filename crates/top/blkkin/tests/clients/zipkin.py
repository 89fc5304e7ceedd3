"""Sends a request by py_zipkin in ENCODING to URL, or to the port of Scribe; prints what Zipkin's API has to say of it."""

import base64
import json
import sys
import time
import urllib.request

from py_zipkin import Encoding, Kind
from py_zipkin.transport import BaseTransportHandler
from py_zipkin.zipkin import zipkin_client_span, zipkin_span

encoding, to = Encoding[sys.argv[1]], sys.argv[2]
TYPES = {"V1_THRIFT": "application/x-thrift", "V2_PROTO3": "application/x-protobuf"}


class Http(BaseTransportHandler):
    def get_max_payload_bytes(self):
        return None

    def send(self, payload):
        body = payload if isinstance(payload, bytes) else payload.encode()
        headers = {"content-type": TYPES.get(encoding.name, "application/json")}
        request = urllib.request.Request(to, body, headers)
        assert urllib.request.urlopen(request).status == 202


class Scribe(BaseTransportHandler):
    """Each span alone, without the five bytes that open a list."""

    def get_max_payload_bytes(self):
        return None

    def send(self, payload):
        from scribe import scribe
        from thrift.protocol import TBinaryProtocol
        from thrift.transport import TSocket, TTransport

        transport = TTransport.TFramedTransport(TSocket.TSocket("127.0.0.1", int(to)))
        client = scribe.Client(TBinaryProtocol.TBinaryProtocol(transport, strictRead=False, strictWrite=False))
        transport.open()
        message = base64.b64encode(payload[5:]).decode()
        assert client.Log(messages=[scribe.LogEntry(category="zipkin", message=message)]) == scribe.ResultCode.OK
        transport.close()


transport = Scribe() if to.isdigit() else Http()
BEGIN = 1793491200
# A root span takes its start from time.time(), so the test replaces the clock.
now = BEGIN + 0.25
time.time = lambda: now
with zipkin_span(
    service_name="Web",
    span_name="GET /images",
    transport_handler=transport,
    host="10.0.0.1",
    port=8080,
    sample_rate=100,
    use_128bit_trace_id=True,
    kind=Kind.SERVER,
    annotations={"begun": BEGIN + 0.375},
    binary_annotations={"http.path": "/images", "size": "größe"},
    max_span_batch_size=1,
    encoding=encoding,
) as root:
    with zipkin_client_span(
        service_name="Web", span_name="query", timestamp=BEGIN + 0.5, duration=0.125
    ) as call:
        call.add_sa_binary_annotation(port=5432, service_name="Database", host="10.0.0.2")
        call.update_binary_annotations({"error": "timeout"})
        call.add_annotation("sent", BEGIN + 0.5)
    with zipkin_span(service_name="Web", span_name="resize", timestamp=BEGIN + 0.625, duration=0.0625) as local:
        # Zipkin v1 has the service of a span only in annotations and tags, so a local span needs a
        # tag.
        local.update_binary_annotations({"width": "64"})
    now = BEGIN + 0.75

trace = root.zipkin_attrs.trace_id
web = {"serviceName": "web", "ipv4": "10.0.0.1", "port": 8080}
expected = [
    {
        "traceId": trace,
        "id": root.zipkin_attrs.span_id,
        "kind": "SERVER",
        "name": "get /images",
        "timestamp": BEGIN * 1000000 + 250000,
        "duration": 500000,
        "localEndpoint": web,
        "annotations": [{"timestamp": BEGIN * 1000000 + 375000, "value": "begun"}],
        "tags": {"http.path": "/images", "size": "größe"},
    },
    {
        "traceId": trace,
        "parentId": root.zipkin_attrs.span_id,
        "id": call.zipkin_attrs.span_id,
        "kind": "CLIENT",
        "name": "query",
        "timestamp": BEGIN * 1000000 + 500000,
        "duration": 125000,
        "localEndpoint": web,
        "remoteEndpoint": {"serviceName": "database", "ipv4": "10.0.0.2", "port": 5432},
        "annotations": [{"timestamp": BEGIN * 1000000 + 500000, "value": "sent"}],
        "tags": {"error": "timeout"},
    },
    {
        "traceId": trace,
        "parentId": root.zipkin_attrs.span_id,
        "id": local.zipkin_attrs.span_id,
        "name": "resize",
        "timestamp": BEGIN * 1000000 + 625000,
        "duration": 62500,
        "localEndpoint": web,
        "tags": {"width": "64"},
    },
]
print(json.dumps(expected))
