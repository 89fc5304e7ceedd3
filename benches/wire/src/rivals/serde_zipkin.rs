//! Zipkin's JSON formats with serde_json and borrowed text. This is the fastest mode of serde_json;
//! it works only for text without escapes, as in this bench.

use super::rival::Rival;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::hint::black_box;

type Text<'a> = &'a str;

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    #[serde(borrow)]
    trace_id: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    parent_id: Option<Text<'a>>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    #[serde(borrow, default)]
    name: Text<'a>,
    timestamp: Option<u64>,
    duration: Option<u64>,
    #[serde(borrow)]
    local_endpoint: Option<Endpoint<'a>>,
    #[serde(borrow)]
    remote_endpoint: Option<Endpoint<'a>>,
    #[serde(borrow, default)]
    annotations: Vec<Annotation<'a>>,
    #[serde(borrow, default)]
    tags: Tags<'a>,
    #[serde(default, skip_serializing_if = "is_false")]
    debug: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    shared: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    Client,
    Server,
    Producer,
    Consumer,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    #[serde(borrow, default)]
    service_name: Text<'a>,
    #[serde(borrow)]
    ipv4: Option<Text<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    ipv6: Option<Text<'a>>,
    #[serde(default)]
    port: u16,
}

#[derive(Deserialize, Serialize)]
struct Annotation<'a> {
    timestamp: u64,
    #[serde(borrow)]
    value: Text<'a>,
}

/// Keys and values in the order of the JSON text. A list is faster than any map.
#[derive(Default)]
struct Tags<'a>(Vec<(Text<'a>, Text<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Tags<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tags<'a>, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Tags<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tags")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tags<'de>, A::Error> {
                let mut tags = Vec::new();
                while let Some((key, value)) = map.next_entry()? {
                    tags.push((key, value));
                }
                Ok(Tags(tags))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl Serialize for Tags<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct V1Span<'a> {
    #[serde(borrow)]
    trace_id: Text<'a>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    parent_id: Option<Text<'a>>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    timestamp: Option<u64>,
    duration: Option<u64>,
    #[serde(borrow)]
    annotations: Vec<V1Annotation<'a>>,
    #[serde(borrow)]
    binary_annotations: Vec<Binary<'a>>,
}

#[derive(Deserialize, Serialize)]
struct V1Annotation<'a> {
    timestamp: u64,
    #[serde(borrow)]
    value: Text<'a>,
    #[serde(borrow)]
    endpoint: Option<Endpoint<'a>>,
}

#[derive(Deserialize, Serialize)]
struct Binary<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    value: BinaryValue<'a>,
    #[serde(borrow)]
    endpoint: Option<Endpoint<'a>>,
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum BinaryValue<'a> {
    Flag(bool),
    #[serde(borrow)]
    Text(Text<'a>),
}

pub(super) fn v2(batch: &'static [u8]) -> Rival {
    rival::<Vec<Span<'static>>>(batch)
}

pub(super) fn v1(batch: &'static [u8]) -> Rival {
    rival::<Vec<V1Span<'static>>>(batch)
}

fn rival<T: Deserialize<'static> + Serialize + 'static>(batch: &'static [u8]) -> Rival {
    let spans: T = serde_json::from_slice(batch).expect("spans");
    let mut out = Vec::with_capacity(batch.len());
    Rival {
        name: "serde_json, borrowed",
        decode: Box::new(move || {
            let spans: T = serde_json::from_slice(black_box(batch)).expect("spans");
            black_box(&spans);
        }),
        encode: Box::new(move || {
            out.clear();
            serde_json::to_writer(&mut out, black_box(&spans)).expect("memory");
            assert_eq!(black_box(&out).len(), batch.len());
        }),
    }
}
