//! Keys of the protobuf fields, by message.

pub(crate) const RESOURCE_SPANS: u32 = crate::protobuf::sized(1);
pub(crate) mod resource_spans {
    use crate::protobuf::sized;
    pub(crate) const RESOURCE: u32 = sized(1);
    pub(crate) const SCOPE_SPANS: u32 = sized(2);
}
pub(crate) mod resource {
    use crate::protobuf::sized;
    pub(crate) const ATTRIBUTES: u32 = sized(1);
}
pub(crate) mod scope_spans {
    use crate::protobuf::sized;
    pub(crate) const SCOPE: u32 = sized(1);
    pub(crate) const SPANS: u32 = sized(2);
}
pub(crate) mod scope {
    use crate::protobuf::sized;
    pub(crate) const NAME: u32 = sized(1);
    pub(crate) const VERSION: u32 = sized(2);
    pub(crate) const ATTRIBUTES: u32 = sized(3);
}
pub(crate) mod span {
    use crate::protobuf::{fixed64, sized, varint};
    pub(crate) const TRACE_ID: u32 = sized(1);
    pub(crate) const SPAN_ID: u32 = sized(2);
    pub(crate) const TRACE_STATE: u32 = sized(3);
    pub(crate) const PARENT_SPAN_ID: u32 = sized(4);
    pub(crate) const NAME: u32 = sized(5);
    pub(crate) const KIND: u32 = varint(6);
    pub(crate) const START_TIME: u32 = fixed64(7);
    pub(crate) const END_TIME: u32 = fixed64(8);
    pub(crate) const ATTRIBUTES: u32 = sized(9);
    pub(crate) const DROPPED_ATTRIBUTES: u32 = varint(10);
    pub(crate) const EVENTS: u32 = sized(11);
    pub(crate) const DROPPED_EVENTS: u32 = varint(12);
    pub(crate) const LINKS: u32 = sized(13);
    pub(crate) const DROPPED_LINKS: u32 = varint(14);
    pub(crate) const STATUS: u32 = sized(15);
}
pub(crate) mod event {
    use crate::protobuf::{fixed64, sized};
    pub(crate) const TIME: u32 = fixed64(1);
    pub(crate) const NAME: u32 = sized(2);
    pub(crate) const ATTRIBUTES: u32 = sized(3);
}
pub(crate) mod link {
    use crate::protobuf::{sized, varint};
    pub(crate) const TRACE_ID: u32 = sized(1);
    pub(crate) const SPAN_ID: u32 = sized(2);
    pub(crate) const TRACE_STATE: u32 = sized(3);
    pub(crate) const ATTRIBUTES: u32 = sized(4);
    pub(crate) const DROPPED_ATTRIBUTES: u32 = varint(5);
}
pub(crate) mod status {
    use crate::protobuf::{sized, varint};
    pub(crate) const MESSAGE: u32 = sized(2);
    pub(crate) const CODE: u32 = varint(3);
}
pub(crate) mod pair {
    use crate::protobuf::sized;
    pub(crate) const KEY: u32 = sized(1);
    pub(crate) const VALUE: u32 = sized(2);
}
pub(crate) mod any {
    use crate::protobuf::{fixed64, sized, varint};
    pub(crate) const STRING: u32 = sized(1);
    pub(crate) const BOOL: u32 = varint(2);
    pub(crate) const INT: u32 = varint(3);
    pub(crate) const DOUBLE: u32 = fixed64(4);
    pub(crate) const ARRAY: u32 = sized(5);
    pub(crate) const MAP: u32 = sized(6);
    pub(crate) const BYTES: u32 = sized(7);
}
pub(crate) mod list {
    pub(crate) const VALUES: u32 = crate::protobuf::sized(1);
}
pub(crate) mod map {
    pub(crate) const VALUES: u32 = crate::protobuf::sized(1);
}
